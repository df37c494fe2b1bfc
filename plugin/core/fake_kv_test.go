package core

import "github.com/warmgate/warmgate/lb"

// fakeKV is shared memory as Envoy offers it.
type fakeKV struct {
	cells  map[string]fakeCell
	broken error                                          // what every call answers, nil when all is well
	onSet  func(key string, val []byte, cas uint32) error // what a call of Set answers, nil when all is well
}

type fakeCell struct {
	val string
	cas uint32
}

func (kv *fakeKV) Get(key string) ([]byte, uint32, error) {
	if kv.broken != nil {
		return nil, 0, kv.broken
	}
	c, ok := kv.cells[key]
	if !ok {
		return nil, 0, lb.ErrNotFound
	}
	return []byte(c.val), c.cas, nil
}

func (kv *fakeKV) Set(key string, val []byte, cas uint32) error {
	if kv.broken != nil {
		return kv.broken
	}
	if kv.onSet != nil {
		if err := kv.onSet(key, val, cas); err != nil {
			return err
		}
	}
	c, ok := kv.cells[key]
	if ok && cas != 0 && cas != c.cas {
		return lb.ErrMismatch
	}
	kv.cells[key] = fakeCell{string(val), c.cas + 1}
	return nil
}
