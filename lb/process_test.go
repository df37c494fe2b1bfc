package lb_test

import (
	"testing"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/memstore"
	"github.com/warmgate/warmgate/lb/storetest"
)

// process is shared memory with owners numbered from 1.
type process struct {
	*storetest.Memory
	owners uint64
}

func newProcess(t testing.TB) *process {
	t.Helper()
	p := &process{Memory: storetest.NewMemory()}
	if err := memstore.Prepare(p.Memory); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *process) newOwner() *memstore.Store {
	p.owners++
	return memstore.New(p.Memory, p.owners, storetest.TTL)
}

// loads returns the load of each endpoint in the scope, over all owners.
func (p *process) loads(scope string, addrs []string) []lb.Load {
	loads, err := p.newOwner().Loads(scope, addrs, nil)
	if err != nil {
		panic(err)
	}
	return loads
}
