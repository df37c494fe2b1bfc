package policy_test

import (
	"fmt"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/health"
	"github.com/warmgate/warmgate/lb/memstore"
	"github.com/warmgate/warmgate/lb/policy"
	"github.com/warmgate/warmgate/lb/storetest"
)

// A policy plans, the store reserves, and the end of the request releases.
func Example() {
	kv := storetest.NewMemory() // the gateway's shared memory
	if err := memstore.Prepare(kv); err != nil {
		panic(err)
	}
	store := memstore.New(kv, 1, 5*time.Second)
	policy, err := policy.New("global_least_request", policy.Config{Health: health.New()})
	if err != nil {
		panic(err)
	}
	view := &lb.View{
		Cluster: "llm", Endpoints: []lb.Endpoint{{Addr: "10.0.0.1:8000"}, {Addr: "10.0.0.2:8000", Weight: 2}},
	}

	var now time.Duration
	for id := lb.LeaseID(1); id <= 3; id++ {
		plan, _ := policy.Plan(now, &lb.Request{}, view)
		store.Reserve(now, id, &plan, func(g lb.Grant, err error) {
			fmt.Println(plan.Candidates[g.Index].Addr, "carries", g.Load.Requests, err)
		})
	}
	store.Release(now, 1)
	// Output:
	// 10.0.0.2:8000 carries 1 <nil>
	// 10.0.0.1:8000 carries 1 <nil>
	// 10.0.0.2:8000 carries 2 <nil>
}
