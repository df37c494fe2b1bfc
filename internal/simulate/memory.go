package simulate

import "github.com/warmgate/warmgate/lb"

// memory is the shared memory of a gateway: an [lb.KV].
type memory map[string]*value

type value struct {
	val []byte
	cas uint32
}

func (m memory) Get(key string) ([]byte, uint32, error) {
	v := m[key]
	if v == nil {
		return nil, 0, lb.ErrNotFound
	}
	return append([]byte(nil), v.val...), v.cas, nil
}

func (m memory) Set(key string, val []byte, cas uint32) error {
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
