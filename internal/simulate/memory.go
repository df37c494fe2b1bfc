package simulate

import "github.com/warmgate/warmgate/lb"

// Memory is the shared memory of a gateway with one worker: an [lb.KV] without a lock. Values are overwritten in place.
type Memory map[string]*value

type value struct {
	val []byte
	cas uint32
}

// Get implements [lb.KV].
func (m Memory) Get(key string) ([]byte, uint32, error) {
	v := m[key]
	if v == nil {
		return nil, 0, lb.ErrNotFound
	}
	return append([]byte(nil), v.val...), v.cas, nil
}

// Set implements [lb.KV].
func (m Memory) Set(key string, val []byte, cas uint32) error {
	v := m[key]
	if v == nil {
		v = &value{}
		m[key] = v
	}
	if cas != 0 && cas != v.cas {
		return lb.ErrMismatch
	}
	v.val, v.cas = append(v.val[:0], val...), v.cas+1
	return nil
}
