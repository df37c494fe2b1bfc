package storetest

import (
	"maps"
	"slices"
	"sync"

	"github.com/warmgate/warmgate/lb"
)

// Memory is an [lb.KV] as a gateway provides it: all operations are ordered by one lock, and cas 0 overwrites. The
// functions let a test act between operations or make them fail; nil is none.
type Memory struct {
	OnGet  func(key string)       // called before each read, without the lock
	OnSet  func(key string)       // called before each write, without the lock
	SetErr func(key string) error // called for each write, which fails with its error
	Vals   map[string][]byte      // by key; only to be used while no store uses the memory

	mu   sync.Mutex
	cas  map[string]uint32
	last uint32 // version of the latest write
}

// NewMemory returns shared memory without any key.
func NewMemory() *Memory { return &Memory{Vals: map[string][]byte{}, cas: map[string]uint32{}} }

// Get implements [lb.KV].
func (m *Memory) Get(key string) ([]byte, uint32, error) {
	if m.OnGet != nil {
		m.OnGet(key)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.Vals[key]
	if !ok {
		return nil, 0, lb.ErrNotFound
	}
	return slices.Clone(v), m.cas[key], nil
}

// Set implements [lb.KV].
func (m *Memory) Set(key string, val []byte, cas uint32) error {
	if m.OnSet != nil {
		m.OnSet(key)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.SetErr != nil {
		if err := m.SetErr(key); err != nil {
			return err
		}
	}
	if _, ok := m.Vals[key]; ok && cas != 0 && cas != m.cas[key] {
		return lb.ErrMismatch
	}
	m.last++
	m.Vals[key], m.cas[key] = slices.Clone(val), m.last
	return nil
}

// CopyFrom makes the keys, values and versions those of another memory.
func (m *Memory) CopyFrom(other *Memory) {
	m.Vals, m.cas, m.last = maps.Clone(other.Vals), maps.Clone(other.cas), other.last
}
