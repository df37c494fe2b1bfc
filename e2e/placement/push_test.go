package placement

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/traffic"
	"github.com/warmgate/warmgate/internal/vllmsim"
	"github.com/warmgate/warmgate/lb/push"
)

// byMemory is a server that runs as many requests at once as its KV cache has room for, like that of make bench-push.
func byMemory() vllmsim.Config {
	c := traffic.Engine(64, 6_600)
	c.Tuning.Speed = 0.41
	return c
}

// unequalTrees are trees whose answers have very different lengths.
func unequalTrees(seed uint64, n int, branches ...int) []traffic.Script {
	r := rand.New(rand.NewPCG(seed, 11))
	out := traffic.Trees(r, n, 307, 153, 23, 1, branches...)
	lengths := loadgen.LogNormal{Median: 67, Sigma: 0.9, Min: 4, Max: 640}
	for i := range out {
		for k := range out[i].Turns {
			out[i].Turns[k].Answer = lengths.Draw(r)
		}
	}
	return out
}

// pushWorkloads are those of make bench-push: users who search trees, on servers that are full.
func pushWorkloads() []Workload {
	return []Workload{
		{Name: "push2", Servers: 4, Server: byMemory(), Full: 30, Scripts: func(seed uint64) []traffic.Script {
			return unequalTrees(seed, 130, 2)
		}},
		{
			Name: "push24", Servers: 4, Server: traffic.Engine(16, 16<<10), Full: 3,
			Scripts: func(seed uint64) []traffic.Script { return trees(seed, 24, 2, 4) },
		},
		{Name: "crowd24", Servers: 4, Server: byMemory(), Full: 30, Scripts: func(seed uint64) []traffic.Script {
			return unequalTrees(seed, 60, 2, 4)
		}},
	}
}

// pushContenders are ways to hand requests over. Each has the servers' metrics, unless its name says otherwise.
func pushContenders() []contender {
	list := []contender{{"round_robin", RoundRobin}}
	add := func(name string, w Waiting) {
		list = append(list, contender{name, func() Maker { return PrefixCacheWaiting(w) }})
	}
	add("blind, no metrics", Waiting{Skip: 32})
	add("blind", Waiting{Skip: 32, Metrics: true})
	for _, n := range []int64{10, 12, 14, 16, 20, 24} {
		add(fmt.Sprint("outstanding ", n), Waiting{Push: push.Outstanding, Cap: n, Skip: 32, Metrics: true})
	}
	add("pending", Waiting{Push: push.Pending, Skip: 32, Metrics: true})
	add("pending, no metrics", Waiting{Push: push.Pending, Skip: 32})
	add("pending, push_ahead 1", Waiting{Push: push.Pending, Ahead: 1, Skip: 32, Metrics: true})
	for _, n := range []int{8, 64, 100} {
		add(fmt.Sprint("pending, skip ", n), Waiting{Push: push.Pending, Skip: n, Metrics: true})
	}
	return list
}

// TestPushTable prints when to push.
func TestPushTable(t *testing.T) {
	if !*table {
		t.Skip("-table is not given")
	}
	fmt.Println("| workload | push | tokens/s | cached | TTFT mean, p90, p99 in ms | preempted |")
	fmt.Println("| --- | --- | --- | --- | --- | --- |")
	for _, w := range pushWorkloads() {
		prepared, _ := prepareAll(&w)
		for _, c := range pushContenders() {
			var all []Result
			for _, p := range prepared {
				all = append(all, p.Run(1, c.maker()))
			}
			ms := func(of func(Result) time.Duration) float64 { return median(all, of).Seconds() * 1e3 }
			fmt.Printf("| %s | %s | %.0f | %.3f | %.0f %.0f %.0f | %d |\n", w.Name, c.name,
				median(all, func(r Result) float64 { return r.Speed }),
				median(all, func(r Result) float64 { return r.Cached }),
				ms(func(r Result) time.Duration { return r.TTFT }), ms(func(r Result) time.Duration { return r.P90 }),
				ms(func(r Result) time.Duration { return r.P99 }),
				median(all, func(r Result) int { return r.Preempted }))
		}
	}
}

// Servers whose memory limits the batch get more done with push: pending than if they are handed everything at once,
// with fewer preemptions, and nearly as much as with the best fixed cap.
func TestPendingFindsWhatFits(t *testing.T) {
	p := pushWorkloads()[0].Prepare(1)
	run := func(w Waiting) Result {
		w.Skip, w.Metrics = 32, true
		r := p.Run(1, PrefixCacheWaiting(w))
		t.Logf("%v, cap %d: %+v", w.Push, w.Cap, r)
		return r
	}
	blind, pending := run(Waiting{}), run(Waiting{Push: push.Pending})
	capped := run(Waiting{Push: push.Outstanding, Cap: 14})
	if pending.Speed < 1.15*blind.Speed || pending.Speed < 0.9*capped.Speed {
		t.Errorf("%.0f tokens/s, blind %.0f, cap 14 %.0f", pending.Speed, blind.Speed, capped.Speed)
	}
	if pending.Preempted > blind.Preempted/2 || pending.P90 > blind.P90 {
		t.Errorf("%d preempted, p90 %v, blind %d, %v", pending.Preempted, pending.P90, blind.Preempted, blind.P90)
	}
}
