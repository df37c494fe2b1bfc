package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/bench/router"
	"github.com/warmgate/warmgate/e2e/bench/scripted"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/placement"
	"github.com/warmgate/warmgate/e2e/traffic"
)

// Names of the contenders in the last line of the output.
const (
	blindName       = "blind"
	outstandingName = "outstanding" // and the cap
	ownName         = "pending"
)

// contender is one way to hand requests over.
type contender struct {
	name   string
	policy compare.Policy  // of the gateway; unused with a router
	router *router.Router  // in the gateway's place; nil = none
	limit  placement.Maker // plays in simulated time; nil = does not
	cap    int             // of push: outstanding
	added  bool            // a variant, which the last line does not count among the others
}

func (c contender) title() string { return c.name }

// contenders returns all, in the order of the table, with push: outstanding at each of the caps, and push: pending with
// each push_ahead as well.
func contenders(caps, ahead []int) []contender {
	list := []contender{
		{name: compare.RoundRobin.Name, policy: compare.RoundRobin},
		{name: compare.LeastRequest.Name, policy: compare.LeastRequest},
		{name: router.VLLM().Name, router: router.VLLM()},
		tuned(),
		own(blindName, "", false),
	}
	for _, most := range caps {
		c := own(fmt.Sprintf("%s %d", outstandingName, most),
			fmt.Sprintf(`"push":"outstanding","max_inflight":%d,%s`, most, queue("")), false)
		c.cap = most
		list = append(list, c)
	}
	list = append(list, pending(ownName, "", "", true))
	for _, c := range []contender{
		pending(ownName+" skip 100", "", `,"skip":100`, true),
		pending(ownName+" no metrics", "", "", false),
	} {
		c.added = true
		list = append(list, c)
	}
	for _, n := range ahead {
		c := pending(fmt.Sprintf("%s ahead %d", ownName, n), fmt.Sprintf(`"push_ahead":%d,`, n), "", true)
		c.added = true
		list = append(list, c)
	}
	return append(list, limits()...)
}

// tuned is vLLM's router with thresholds for servers of a few dozen slots: by default it evens out those that are 64
// requests apart.
func tuned() contender {
	r := router.VLLM()
	r.Tuned = []string{"--balance-abs-threshold", "4", "--balance-rel-threshold", "1.1"}
	return contender{name: r.Name + " tuned", router: r}
}

// queue returns the settings of the queue, with more of them, if any.
func queue(more string) string { return `"queue":{"max_wait":"30s"` + more + `},` }

// pending is push: pending, with more settings of it and of the queue, and with or without the servers' metrics.
func pending(name, more, ofQueue string, metrics bool) contender {
	return own(name, `"push":"pending",`+more+queue(ofQueue), metrics)
}

// own is prefix_cache with more settings. Each has a secret, and with it an index, of its own: one that has seen the
// prompts of the contender before would know where those went.
func own(name, more string, metrics bool) contender {
	engines := ""
	if metrics {
		engines = `,"metrics_cluster":"warmgate-metrics"`
	}
	secret := "bench-push-" + strings.ReplaceAll(name, " ", "-")
	return contender{name: name, policy: compare.Policy{
		Name: name, Cluster: harness.Warmgate,
		Plugin: `{"lb_type":"endpoint","lb_policy":"prefix_cache","lb_config":{` + more +
			`"envoy":{"admin_cluster":"warmgate-admin"` + engines + `},"prefix":{"secret":"` + secret +
			`"},"debug_headers":true}}`,
	}}
}

func (c *contender) describe() string {
	if c.router != nil {
		return c.router.Describe()
	}
	return c.policy.Describe()
}

// patience of the clients: much longer than any wait.
const patience = 2 * time.Minute

// play has the contender send the scripts to the servers of the stage, whose caches and counts are emptied before.
func (c *contender) play(ctx context.Context, stage *compare.Stage, w *workload, scripts []traffic.Script) (
	r result, err error,
) {
	if c.limit != nil {
		return foreseen(w, scripts, c.limit), nil
	}
	at, err := router.Begin(ctx, stage, c.policy, c.router)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, at.Stop()) }()
	client := loadgen.NewClient(loadgen.Options{
		URL: at.URL + compare.Path, KeepHeaders: compare.DebugHeaders, Timeout: patience,
	})
	defer client.Close()
	if err := scripted.WarmUp(ctx, client, false, 4*len(stage.Servers)); err != nil {
		return r, fmt.Errorf("%w\n%s", err, at.Log())
	}
	for _, s := range stage.Servers {
		s.Reset()
	}
	stage.Fleet.Reset()
	before, err := bench.ReadCPU()
	if err != nil {
		return r, err
	}
	p := scripted.Player{Client: client}
	samples := p.Play(ctx, scripts, w.clients)
	after, err := bench.ReadCPU()
	if err != nil {
		return r, err
	}
	r = resultOf(samples, windowOf(p.Begins, w.warm), stage)
	r.cpu = after.Since(before)
	return r, cmp.Or(ctx.Err(), c.policy.Steered(samples))
}
