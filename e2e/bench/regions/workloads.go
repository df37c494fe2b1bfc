package regions

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/traffic"
	"github.com/warmgate/warmgate/internal/mooncake"
	"github.com/warmgate/warmgate/internal/vllmsim"
)

// engine is a server. 512 tokens of a prompt take 0.3 s, as in the setting that cross-region balancing was published
// with, so that a wire of 100 ms counts for as much. A decode step takes about as long for one sequence as for many, as
// with small batches on a GPU, where it mostly reads the weights; it is long enough that this machine has time to spare
// although it plays twelve servers and all their users. With so many sequences at once, the first region has nearly
// twice as many users on the skewed load as its servers can run, and all regions together have about as many.
func engine() vllmsim.Config {
	c := traffic.Engine(17, 15_700)
	c.Tuning.PrefillOverheadMS, c.Tuning.PrefillTokenMS = 11, 0.57
	c.Tuning.DecodeStepMS, c.Tuning.DecodeSeqMS = 23, 0.23
	return c
}

// users at once, by region.
type users = [regions]int

// workload is what users send, each waiting for the end of one conversation or tree before the next.
type workload struct {
	name         string
	about        string
	skewed, even users
	perUser      int // conversations or trees that a user has, at least; more than can be played
	write        func(r *rand.Rand, n int) []traffic.Script
}

func (w workload) title() string { return w.name }

// Lengths of all workloads, in tokens. Those of problems, questions and steps are averages. All regions have the same
// system prompt.
const (
	system, problem, step = 307, 153, 23
	turns, question       = 5, 61
)

// answers of all workloads: how long one becomes nobody can tell in advance.
var answers = loadgen.LogNormal{Median: 67, Sigma: 0.9, Min: 4, Max: 640}

// workloads returns all. A user who searches trees has several requests under way, so there are fewer of them, with
// about as many requests in all.
func workloads() []workload {
	return []workload{
		{
			name: "conversations", skewed: users{120, 40, 40}, even: users{67, 67, 66}, perUser: 17,
			about: fmt.Sprintf("conversations × %d turns, questions of %d tokens", turns, question),
			write: func(r *rand.Rand, n int) []traffic.Script {
				begin := []loadgen.Message{traffic.System(loadgen.Text(r, system))}
				first := func(int) []loadgen.Message { return begin }
				return traffic.Conversations(r, n, first, turns, question, 1)
			},
		},
		trees("trees2", users{41, 13, 13}, users{23, 22, 22}, 2),
		trees("trees24", users{13, 4, 4}, users{7, 7, 7}, 2, 4),
	}
}

// traceName is the workload of the sessions of a trace.
const traceName = "trace"

// sessionsOf is what the sessions of a trace send, from one on that the seed says; answers are as long as elsewhere. A
// session of Mooncake's has one request and a half: hardly anything is cached of most prompts.
func sessionsOf(trace []mooncake.Request) workload {
	const scale, longest = 16, 3001
	return workload{
		name: traceName, skewed: users{120, 40, 40}, even: users{67, 67, 66}, perUser: 17,
		about: fmt.Sprintf("sessions of a trace of %d requests, prompts ÷ %d", len(trace), scale),
		write: func(r *rand.Rand, n int) []traffic.Script {
			all, from := traffic.Sessions(trace, r.Uint64(), scale, longest), r.Int()
			out := make([]traffic.Script, n)
			for i := range out {
				out[i] = all[(uint(from)+uint(i))%uint(len(all))]
				out[i].Session = strconv.Itoa(i)
			}
			return out
		},
	}
}

func trees(name string, skewed, even users, branches ...int) workload {
	return workload{
		name: name, skewed: skewed, even: even, perUser: 23,
		about: fmt.Sprintf("trees of thoughts of depth %d with %v branches, problems of %d tokens, steps of %d",
			traffic.TreeDepth, branches, problem, step),
		write: func(r *rand.Rand, n int) []traffic.Script {
			return traffic.Trees(r, n, system, problem, step, 1, branches...)
		},
	}
}

// describe returns what is sent.
func (w *workload) describe() string {
	return fmt.Sprintf("workload %s: %s; users at once, in a closed loop, in %v: skewed %v, even %v",
		w.name, w.about, names, w.skewed, w.even)
}

// Loads: how the users are distributed over the regions.
const (
	skewed = "skewed"
	even   = "even"
)

// cell is a workload under a load.
type cell struct {
	workload
	load string
}

func (c *cell) key() string { return c.name + "@" + c.load }

func (c *cell) users() users {
	if c.load == skewed {
		return c.skewed
	}
	return c.even
}

// times returns so many times as many users, at least one in each region.
func times(u users, scale float64) users {
	for i, n := range u {
		u[i] = max(1, int(math.Round(float64(n)*scale)))
	}
	return u
}

// cells returns those of the workloads and loads that the lists name, with so many times the users.
func cells(all []workload, workloadList, loadList string, scale float64) ([]cell, error) {
	chosen, err := bench.Named(all, workloadList, workload.title)
	if err != nil {
		return nil, err
	}
	loads, err := bench.Named([]string{skewed, even}, loadList, func(name string) string { return name })
	if err != nil {
		return nil, err
	}
	var out []cell
	for _, w := range chosen {
		w.skewed, w.even = times(w.skewed, scale), times(w.even, scale)
		for _, load := range loads {
			out = append(out, cell{w, load})
		}
	}
	return out, nil
}

// scripts returns what the users of each region send. The same seed gives the same.
func (c *cell) scripts(seed uint64) (out [regions][]traffic.Script) {
	n := 0
	for _, u := range c.users() {
		n += u * c.perUser
	}
	r := rand.New(rand.NewPCG(seed, xxhash.Sum64String(c.key())))
	all := c.write(r, n)
	traffic.Redraw(r, all, 1, answers)
	for i, u := range c.users() {
		out[i], all = all[:u*c.perUser], all[u*c.perUser:]
	}
	return out
}
