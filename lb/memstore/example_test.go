package memstore_test

import (
	"fmt"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/memstore"
	"github.com/warmgate/warmgate/lb/storetest"
)

// Two workers share the counts. When one of them stops sending heartbeats, the other returns its leases.
func Example() {
	kv := storetest.NewMemory() // the gateway's shared memory
	if err := memstore.Prepare(kv); err != nil {
		panic(err)
	}
	const ttl = 5 * time.Second
	a, b := memstore.New(kv, 1, ttl), memstore.New(kv, 2, ttl)
	plan := &lb.Plan{Scope: "llm", List: lb.NewList([]lb.Candidate{{Addr: "10.0.0.1:8000", Slope: 1, Weight: 1}})}
	show := func(g lb.Grant, _ error) { fmt.Println(g.Load.Requests, "in flight") }

	a.Reserve(0, 1, plan, show)
	b.Reserve(0, 1, plan, show)
	if err := b.Heartbeat(2 * ttl); err != nil {
		panic(err)
	}
	b.Reserve(2*ttl, 2, plan, show)
	// Output:
	// 1 in flight
	// 2 in flight
	// 2 in flight
}
