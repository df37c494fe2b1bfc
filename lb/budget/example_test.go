package budget_test

import (
	"fmt"

	"github.com/warmgate/warmgate/lb/budget"
)

// Two targets, of which one gets three times as much as the other. The bucket of the first one holds 1,000 tokens.
func Example() {
	targets := []budget.Target{
		{Limits: budget.Limits{Weight: 3, Tokens: 1000}},
		{Limits: budget.Limits{Weight: 1}},
	}
	last := -1
	for range 8 {
		for i := range targets {
			targets[i].Apply(1, targets[i].Limits)
		}
		last = budget.Choose(targets, last, 200)
		budget.Charge(targets, last, 1, 200)
		fmt.Print(last, " ")
	}
	fmt.Println("and the first one has more in", targets[0].Wait(200, 0), "ms")
	// Output: 0 0 1 0 0 0 1 1 and the first one has more in 12000 ms
}
