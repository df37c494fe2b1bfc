// Package memstoretest has the shared memory of a process with several owners of the embedded store, for tests of that
// store and of packages that it imports.
package memstoretest

import (
	"strings"
	"testing"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/memstore"
	"github.com/warmgate/warmgate/lb/storetest"
)

// Process is shared memory that is prepared for the embedded store, with owners numbered from 1.
type Process struct {
	*storetest.Memory
	owners uint64
}

var _ storetest.Backend = (*Process)(nil)

// NewProcess returns a process without owners.
func NewProcess(t testing.TB) *Process {
	t.Helper()
	p := &Process{Memory: storetest.NewMemory()}
	if err := memstore.Prepare(p.Memory); err != nil {
		t.Fatal(err)
	}
	return p
}

// NewStore returns the store of one more owner.
func (p *Process) NewStore() *memstore.Store {
	p.owners++
	return memstore.New(p.Memory, p.owners, storetest.TTL)
}

// NewOwner implements [storetest.Backend].
func (p *Process) NewOwner() lb.Store { return p.NewStore() }

// IndexBlocks implements [storetest.Backend].
func (p *Process) IndexBlocks(bytes int) int { return memstore.IndexBlocks(bytes) }

// Loads implements [storetest.Backend]. It panics if the memory is damaged.
func (p *Process) Loads(scope string, addrs []string) []lb.Load {
	loads, err := p.NewStore().Loads(scope, addrs, nil)
	if err != nil {
		panic(err)
	}
	return loads
}

// Fail implements [storetest.Failer].
func (p *Process) Fail(f func() error) {
	if p.SetErr = nil; f != nil {
		p.SetErr = func(string) error { return f() }
	}
}

// Between implements [storetest.Interleaver].
func (p *Process) Between(f func()) {
	p.OnGet, p.OnSet = nil, nil
	if f != nil {
		p.OnGet = func(key string) {
			if !strings.Contains(key, "/life/") { // read between a table and its change, where f is called anyway
				f()
			}
		}
		p.OnSet = p.OnGet
	}
}
