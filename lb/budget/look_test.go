package budget_test

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb/budget"
)

func TestLevel(t *testing.T) {
	const ms = time.Millisecond
	both := budget.Limits{Weight: 1, Tokens: 6000, Requests: 60}
	full := budget.Level{Left: budget.Left{Tokens: 6000, Requests: 60}}
	used := budget.State{
		At: 1000, MissingTokens: 5000, MissingRequests: 60, Deficit: -300, Closed: 2500,
		TokenRate: 6000, RequestRate: 60,
	}
	for name, c := range map[string]struct {
		state  budget.State
		now    float64
		limits budget.Limits
		want   budget.Level
	}{
		"never used": {budget.State{}, 1e9, both, full},
		"no limits": {
			budget.State{}, 1e9, budget.Limits{Weight: 1}, budget.Level{Left: budget.Left{Tokens: -1, Requests: -1}},
		},
		"at once": {
			used, 1000, both,
			budget.Level{Left: budget.Left{Tokens: 1000}, Deficit: -300, Closed: 2500 * ms, Over: true},
		},
		"2 s later": {
			used, 3000, both,
			budget.Level{Left: budget.Left{Tokens: 1200, Requests: 2}, Deficit: -300, Closed: 500 * ms},
		},
		"half of a request": {
			used, 1500,
			budget.Limits{Weight: 1, Requests: 60},
			budget.Level{Left: budget.Left{Tokens: -1, Requests: 0.5}, Deficit: -300, Closed: 2000 * ms, Over: true},
		},
		"other limits": { // as full as before
			used, 1000,
			budget.Limits{Weight: 1, Tokens: 600},
			budget.Level{Left: budget.Left{Tokens: 100, Requests: -1}, Deficit: -300, Closed: 2500 * ms},
		},
		"long ago": {used, 100_000, both, full},
	} {
		if got := c.state.Look(c.now).Level(c.limits); got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}
