package redis

import (
	"context"
	"fmt"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/pipe"
	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
)

const (
	// budgeted is the contender with budgets.
	budgeted = "budgets"
	// budgetTargets is how many targets have one.
	budgetTargets = 10
	// budgetRate is tokens and requests a minute: never used up, so that every reservation is granted.
	budgetRate = 1e12
)

// budgetContenders are compared in this order: the same store without budgets and with them.
var budgetContenders = []contender{
	contenders[0],
	{
		budgeted, "redisclient.Store with a budget for each endpoint: weight, cap, tokens and requests a minute",
		func(c *pipe.Conn, s settings, owner uint64, endpoints []string) client {
			w := openWarmgate(c, s, owner, endpoints).(*warmgateClient)
			w.plan.Scope += ".budgets"
			w.plan.Budget.Tokens = requestTokens
			for i := range w.plan.Candidates {
				w.plan.Candidates[i].Cap = 1000 + int64(i)
				w.plan.Budget.Limits = append(w.plan.Budget.Limits,
					budget.Limits{Weight: float64(1 + i), Tokens: budgetRate, Requests: budgetRate})
			}
			w.plan.List = lb.NewList(w.plan.Candidates)
			return w
		}, func(s *redisserver.Server, endpoints int) (map[string]int64, error) {
			return loadsOf(s, clusterName(endpoints)+".budgets")
		},
	},
}

// collectBudgets measures reservations with budgets.
func (rep *report) collectBudgets(ctx context.Context, server *redisserver.Server) (err error) {
	rep.budgets, err = compare(ctx, rep.settings, server, budgetTargets, budgetContenders, []part{
		{1, (*stage).warm}, {rep.settings.phases(), (*stage).timePhase}, {1, (*stage).drain},
	})
	return err
}

// budgetLines returns what was measured with budgets.
func (rep *report) budgetLines() []string {
	c := rep.budgets
	if c == nil {
		return nil
	}
	return []string{fmt.Sprintf("with budgets, %d targets, each with a cap and a weight of its own, %g tokens and "+
		"requests a minute, requests of %d tokens: %s; server µs per reservation %s, without budgets %s, over that "+
		"%s; per release %s", budgetTargets, float64(budgetRate), requestTokens, budgetContenders[1].what,
		c.spread(budgeted, reserveOf).Format("%.1f"), c.spread(warmgate, reserveOf).Format("%.1f"),
		c.ratio(budgeted, warmgate, reserveOf).Format("%.2f"), c.spread(budgeted, releaseOf).Format("%.1f"))}
}

// addBudgets adds what was measured with budgets to the last line: a reservation over 10 targets takes 30 µs at most.
func (rep *report) addBudgets(l bench.Line) {
	if c := rep.budgets; c != nil {
		took := c.spread(budgeted, reserveOf)
		l.Figure("schedule_script_us", &took)
		l["budgets_vs_none"] = c.ratio(budgeted, warmgate, reserveOf).Median
		l["schedule_script_target_met"] = took.Median <= 30
	}
}
