package redisclient_test

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
	"github.com/warmgate/warmgate/lb/storetest"
)

// A request with a prompt is placed at once while others wait for budgets of the same endpoints. If a bucket has
// refilled meanwhile, the next poll grants it (lua/wait_prompt.lua).
func TestPromptsBesideBudgets(t *testing.T) {
	b := openClocked(t, redisserver.StartT(t, redisserver.Options{}), false, nil)(t).(*clocked)
	now, id := time.Hour, lb.LeaseID(0)
	reserve := func(s lb.Store, plan *lb.Plan) *result {
		out := &result{}
		id++
		s.Reserve(now, id, plan, out.set)
		return out
	}
	wantInFlight := func(want int64) {
		t.Helper()
		if l := b.Loads("llm", storetest.Addrs(1))[0]; l.Requests != want {
			t.Errorf("%d requests in flight, want %d", l.Requests, want)
		}
	}
	spending := storetest.Budgeted(storetest.Addrs(1), budget.Limits{Weight: 1, Tokens: 6000}, 6000)
	spending.Wait = lb.Wait{Max: time.Hour, Length: 100, Class: lb.Class{ID: 1, Weight: 1}}
	prompting := storetest.WithPrompt(storetest.Even(storetest.Addrs(1)), 1, storetest.Blocks(1, 2))
	prompting.Candidates[0].Cap = 9
	prompting.Wait = spending.Wait
	first, second := b.NewOwner(), b.NewOwner()
	reserve(first, spending).want(t, "granted 0")
	few := *spending
	few.Budget.Tokens, few.Tokens = 1000, 1000
	waiting := reserve(first, &few)
	reserve(second, prompting).want(t, "granted 0")
	for range 399 {
		now += lb.PollPeriod
		b.Pass(lb.PollPeriod)
		first.Poll(now)
		second.Poll(now)
	}
	now += 2 * lb.PollPeriod
	b.Pass(2 * lb.PollPeriod)
	reserve(second, prompting).want(t, "granted 0")
	waiting.want(t, "waits")
	wantInFlight(3)
	first.Poll(now)
	waiting.want(t, "granted 0")
	wantInFlight(4)
}
