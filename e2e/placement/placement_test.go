package placement

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/traffic"
)

// run plays the workload of that name with a policy.
func run(t *testing.T, name string, load float64, maker func() Maker) Result {
	t.Helper()
	all := Workloads()
	i := slices.IndexFunc(all, func(w Workload) bool { return w.Name == name })
	p := all[i].Prepare(1)
	r := p.Run(load, maker())
	t.Logf("%s at %g: %+v", name, load, r)
	return r
}

func warmest() Maker { return Warm("prefix_cache", DefaultCredit) }

func exactly(credit float64) func() Maker { return func() Maker { return Exact(credit) } }

// The same seed gives the same run.
func TestRunsRepeat(t *testing.T) {
	if a, b := run(t, "trees2", 1, warmest), run(t, "trees2", 1, warmest); a != b {
		t.Errorf("%+v and %+v", a, b)
	}
}

// While all servers wait, the more is computed the longer: prompts stay where they are cached, as with exact
// knowledge of caches and the credit that is best then.
func TestSaturationStays(t *testing.T) {
	got, limit := run(t, "poisson", 1.5, warmest), run(t, "poisson", 1.5, exactly(8))
	if got.Cached < 0.9*limit.Cached || float64(got.TTFT) > 1.2*float64(limit.TTFT) {
		t.Errorf("cached %.3f at a TTFT of %v, possible are %.3f at %v", got.Cached, got.TTFT, limit.Cached, limit.TTFT)
	}
}

// The branches of a tree, which come at once, spread nearly as if nothing were cached, and find more.
func TestBurstsSpread(t *testing.T) {
	got, even := run(t, "trees24", 1, warmest), run(t, "trees24", 1, RoundRobin)
	if float64(got.TTFT) > 1.3*float64(even.TTFT) || got.Cached < even.Cached+0.04 {
		t.Errorf("cached %.3f at a TTFT of %v, evenly %.3f at %v", got.Cached, got.TTFT, even.Cached, even.TTFT)
	}
}

// Conversations with one system prompt spread over the servers although nothing else is in flight: one cache has no
// room for all of them.
func TestCommonPromptSpreads(t *testing.T) {
	got, ring := run(t, "single", 1, warmest), run(t, "single", 1, RingHash)
	if got.Cached < 0.97*ring.Cached || got.Uneven > 2 {
		t.Errorf("cached %.3f of %.3f, max/mean %.1f", got.Cached, ring.Cached, got.Uneven)
	}
}

// Prompts of unequal length on servers that decode slowly for few requests at once: those in flight cost something
// beside their tokens, so that many short ones do not wait for places in the batch of one server.
func TestShortPromptsDoNotCrowd(t *testing.T) {
	w := Workload{Name: "unequal", Servers: 4, Server: slots().Server, Full: 32}
	w.Scripts = func(seed uint64) []traffic.Script {
		r := rand.New(rand.NewPCG(seed, 9))
		return traffic.Conversations(r, 600, func(int) []loadgen.Message {
			n := 20
			if r.IntN(4) == 0 {
				n = 1000
			}
			return []loadgen.Message{traffic.System(loadgen.Text(r, n))}
		}, 1, 50, 150)
	}
	for seed := range uint64(2) {
		p := w.Prepare(seed + 1)
		got, fewest := p.Run(1, warmest()), p.Run(1, FewestRequests())
		if float64(got.TTFT) > 1.5*float64(fewest.TTFT) {
			t.Errorf("seed %d: a TTFT of %v, by the number of requests %v", p.Seed, got.TTFT, fewest.TTFT)
		}
	}
}

// The only conversation stays where it is.
func TestLoneConversationStays(t *testing.T) {
	if got, ring := run(t, "lone", 1, warmest), run(t, "lone", 1, RingHash); got.Cached < ring.Cached {
		t.Errorf("cached %.3f, %.3f where it stays", got.Cached, ring.Cached)
	}
}

// A run in which a turn is not served gives no result: here the cache has no room for a prompt.
func TestLostTurns(t *testing.T) {
	w := Workload{
		Name: "lost", Servers: 1, Server: traffic.Engine(1, 512), Full: 1,
		Scripts: func(seed uint64) []traffic.Script {
			return conversations(seed, 2, 1, 1000, 1, 150, 60)
		},
	}
	defer func() {
		if got, want := recover(), "lost at 1: 0 of 2 turns were served"; got != want {
			t.Errorf("the run ended with %v, want %q", got, want)
		}
	}()
	w.Prepare(1).Run(1, RoundRobin())
}

// No load of a workload is the same run as another one.
func TestLoadsDiffer(t *testing.T) {
	for _, w := range Workloads() {
		users := map[int]bool{}
		for _, load := range w.loads() {
			if n := w.users(load); w.Full > 0 && users[n] {
				t.Errorf("%s: %d users twice", w.Name, n)
			}
			users[w.users(load)] = true
		}
	}
}
