package policy_test

import (
	"fmt"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/health"
	"github.com/warmgate/warmgate/lb/policy"
	"github.com/warmgate/warmgate/lb/prompt"
)

// A policy plans without counting; Choose settles the plan with the current loads.
func ExampleNew() {
	policy, err := policy.New("global_least_request", policy.Config{Health: health.New()})
	if err != nil {
		panic(err)
	}
	view := &lb.View{Cluster: "llm", Endpoints: []lb.Endpoint{
		{Addr: "10.0.0.1:8000"},
		{Addr: "10.0.0.2:8000"},
		{Addr: "10.0.0.3:8000", State: lb.Unhealthy},
	}}
	plan, reason := policy.Plan(0, &lb.Request{}, view)
	fmt.Println(reason, "of", len(plan.Candidates))

	loads := []lb.Load{{Requests: 2}, {Requests: 1}}
	fmt.Println(plan.Candidates[lb.Choose(&plan, loads, nil)].Addr)
	// Output:
	// chosen of 2
	// 10.0.0.2:8000
}

// A match in the KV cache is worth load: the endpoint that has the prompt is chosen while it carries no more than
// Credit tokens above the others.
func ExampleChoose() {
	plan := &lb.Plan{
		List: lb.NewList([]lb.Candidate{{Addr: "a", Slope: 1, Weight: 1}, {Addr: "b", Slope: 1, Weight: 1}}),
		Unit: lb.Tokens, Tokens: 1000,
		Prefix: lb.Prefix{Blocks: []prompt.Block{{End: 4000}}, Bytes: 4000, Credit: 1000},
	}
	matched := []int{1, 0} // blocks that a and b are recorded to have
	for _, tokens := range []int64{900, 1100} {
		loads := []lb.Load{{Tokens: tokens}, {}}
		fmt.Println(tokens, plan.Candidates[lb.Choose(plan, loads, matched)].Addr)
	}
	// Output:
	// 900 a
	// 1100 b
}
