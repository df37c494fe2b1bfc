package push

import (
	"fmt"
	"math/rand/v2"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/traffic"
	"github.com/warmgate/warmgate/internal/vllmsim"
)

// servers are behind the gateway, all alike.
const servers = 4

// workload is trees that users search, each waiting for the end of one before the next, and the servers.
type workload struct {
	name     string
	server   vllmsim.Config
	trees    int
	warm     int // of these, the first, before anything is measured
	clients  int // users at once
	branches []int
	lengths  lengths
}

// lengths are tokens. Those of problems, steps and answers are averages; see [traffic.Around].
type lengths struct {
	system, problem, step, answer int
	varying                       []loadgen.Lengths // of answers: these distributions in turn; nil: around the average
	each                          int               // how many trees in a row have the same distribution
}

func (w workload) title() string { return w.name }

// workloads returns all.
func workloads() []workload {
	return []workload{trees2(), trees24(), shifts2(), crowd24()}
}

// usual names those that are played unless -workload names others.
const usual = "trees2,trees24"

// speed of the servers of trees2 and crowd24 against [traffic.Engine]: they must have more requests than they can run
// while this machine still has time to spare.
const speed = 0.41

// byMemory is a server that runs as many requests at once as its KV cache has room for: about 15 of trees2, fewer if
// their answers are long and more if they are short or share much. No fixed number of requests is right for it.
func byMemory() vllmsim.Config {
	c := traffic.Engine(64, 6_600)
	c.Tuning.Speed = speed
	return c
}

// trees2 is the setting that selective pushing was published with: 30 users, trees of two branches, answers whose
// lengths nobody can tell in advance, servers that are full when their memory is.
func trees2() workload {
	return workload{
		name: "trees2", server: byMemory(), trees: 97, warm: 31, clients: 30, branches: []int{2}, lengths: heavy(),
	}
}

// trees24 is the workload of that name in bench-prefix, on its servers, with more trees: batches are limited by slots,
// and the larger trees alone fill all of them.
func trees24() workload {
	return workload{
		name: "trees24", server: traffic.Engine(16, 16<<10), trees: 37, warm: 9, clients: 3, branches: []int{2, 4},
		lengths: lengths{system: 300, problem: 150, step: 24, answer: 100},
	}
}

// crowd24 is trees2 with trees of two and of four branches: several times as many requests as the servers can run.
func crowd24() workload {
	return workload{
		name: "crowd24", server: byMemory(), trees: 83, warm: 23, clients: 30, branches: []int{2, 4}, lengths: heavy(),
	}
}

// shifts2 is trees2 with answers that are short for a while and then long, so that what a server can run changes.
func shifts2() workload {
	return workload{
		name: "shifts2", server: byMemory(), trees: 137, warm: 31, clients: 30, branches: []int{2},
		lengths: lengths{system: 307, problem: 153, step: 23, each: 43, varying: []loadgen.Lengths{
			loadgen.LogNormal{Median: 23, Sigma: 0.7, Min: 4, Max: 640},
			loadgen.LogNormal{Median: 139, Sigma: 0.7, Min: 4, Max: 640},
		}},
	}
}

func heavy() lengths {
	return lengths{system: 307, problem: 153, step: 23, each: 1, varying: []loadgen.Lengths{
		loadgen.LogNormal{Median: 67, Sigma: 0.9, Min: 4, Max: 640},
	}}
}

// adjust applies the settings.
func (w *workload) adjust(s settings) {
	if s.clients > 0 {
		w.clients = s.clients
	}
	if s.quick {
		w.trees = w.warm + (w.trees-w.warm+1)/2
	}
}

// scripts returns the traffic. The same seed gives the same.
func (w *workload) scripts(seed uint64) []traffic.Script {
	r := rand.New(rand.NewPCG(seed, xxhash.Sum64String(w.name)))
	l := w.lengths
	out := traffic.Trees(r, w.trees, l.system, l.problem, l.step, max(1, l.answer), w.branches...)
	if len(l.varying) > 0 {
		traffic.Redraw(r, out, l.each, l.varying...)
	}
	return out
}

// describe returns what is sent, and to what.
func (w *workload) describe() string {
	l := w.lengths
	answers := fmt.Sprintf("of %d ± 50 %%", l.answer)
	if len(l.varying) > 0 {
		answers = fmt.Sprintf("log-normal %+v", l.varying)
	}
	if len(l.varying) > 1 {
		answers += fmt.Sprintf(", each for %d trees in turn", l.each)
	}
	return fmt.Sprintf("workload %s: %d trees of thoughts, %d of them to warm up, of depth %d with %v branches, "+
		"%d users at once in a closed loop; one system prompt of %d tokens, problem of %d, step of %d, answers %s; "+
		"%d servers of %s",
		w.name, w.trees, w.warm, traffic.TreeDepth, w.branches, w.clients, l.system, l.problem, l.step, answers,
		servers, compare.Describe(w.server))
}
