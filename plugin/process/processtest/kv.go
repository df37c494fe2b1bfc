// Package processtest has shared memory for tests.
package processtest

import "github.com/warmgate/warmgate/lb"

// KV is shared memory as Envoy offers it, and what is to go wrong with it. All plugins of a gateway without a vm_id, as
// in Higress, share one. It outlives VMs and configurations, and no key is ever deleted.
type KV struct {
	Cells  map[string]Cell
	Broken error                                          // what every call answers, nil when all is well
	OnSet  func(key string, val []byte, cas uint32) error // what a call of Set answers, nil when all is well
}

// Cell is a value and its version.
type Cell struct {
	Val string
	CAS uint32
}

// Get implements lb.KV.
func (kv *KV) Get(key string) ([]byte, uint32, error) {
	if kv.Broken != nil {
		return nil, 0, kv.Broken
	}
	c, ok := kv.Cells[key]
	if !ok {
		return nil, 0, lb.ErrNotFound
	}
	return []byte(c.Val), c.CAS, nil
}

// Set implements lb.KV. A cas of 0 always overwrites, and any cas creates a key.
func (kv *KV) Set(key string, val []byte, cas uint32) error {
	if kv.Broken != nil {
		return kv.Broken
	}
	if kv.OnSet != nil {
		if err := kv.OnSet(key, val, cas); err != nil {
			return err
		}
	}
	c, ok := kv.Cells[key]
	if ok && cas != 0 && cas != c.CAS {
		return lb.ErrMismatch
	}
	kv.Cells[key] = Cell{string(val), c.CAS + 1}
	return nil
}
