package overload

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/vllmsim"
)

// servers and slots of each: small, so that this machine can send many times what they serve, and receive all refusals.
const servers, slots = 3, 8

// tuning is the speed of the servers.
var tuning = vllmsim.DefaultTuning()

// fleet returns the servers. Like vLLM by default they take whatever they are sent: what they cannot run waits.
func fleet() []vllmsim.Config {
	c := vllmsim.DefaultConfig()
	c.MaxNumSeqs, c.MaxQueued, c.Tuning = slots, -1, tuning
	return slices.Repeat([]vllmsim.Config{c}, servers)
}

// class is a kind of request.
type class struct {
	name     string
	share    float64       // of the arrivals
	deadline time.Duration // for the whole answer, from the first time that the client sends; its retries included
}

// critical is the highest class. At ten times the capacity of all it still needs less than half of it.
const critical = "critical"

// classes from the highest to the lowest.
var classes = []class{
	{critical, 0.043, 2700 * time.Millisecond},
	{"interactive", 0.52, 3100 * time.Millisecond},
	{"batch", 0.437, 4300 * time.Millisecond},
}

// rank returns the place of a class, 0 for the highest.
func rank(c *class) int {
	return slices.IndexFunc(classes, func(x class) bool { return x.name == c.name })
}

// shipped returns which of the two classes of the shipped configuration it is.
func (c *class) shipped() string {
	if c.name == critical {
		return "interactive"
	}
	return c.name
}

// workload is chat traffic whose answers vary: in full batches half of them take less than 0.4 s, the longest 1.6 s.
func workload(seed uint64) loadgen.Workload {
	return loadgen.Workload{
		Seed:   seed,
		Prompt: loadgen.LogNormal{Median: 90, Sigma: 0.8, Min: 8, Max: 700},
		Output: loadgen.LogNormal{Median: 27, Sigma: 0.8, Min: 2, Max: 119},
	}
}

// capacity returns the requests a second that the servers answer with full batches, from their settings.
func capacity() (float64, error) {
	typical, err := compare.Typical(workload(0))
	if err != nil {
		return 0, err
	}
	return compare.Capacity(fleet(), typical), nil
}

// call is a request of a user, however often it is sent.
type call struct {
	loadgen.Request
	class *class
	id    string // the same in all attempts, behind that of the run
	seed  uint64 // of how long its client waits before attempts
}

// callsOf returns the traffic at a load. The same seed gives the same.
func callsOf(seed uint64, load float64, span time.Duration, stream bool) ([]call, error) {
	w := workload(seed)
	w.Stream = stream
	reqs, err := compare.AtLoad(w, fleet(), load, span)
	if err != nil {
		return nil, err
	}
	r := rand.New(rand.NewPCG(seed, 0x6f7665726c6f6164))
	out := make([]call, len(reqs))
	for i := range out {
		out[i] = call{Request: reqs[i], class: drawClass(r.Float64()), seed: r.Uint64()}
		a, b := r.Uint64(), r.Uint64()
		out[i].id = fmt.Sprintf("-%04x-4%03x-9%03x-%012x", a>>16&0xffff, a&0xfff, b>>52, b&0xffffffffffff)
	}
	return out, nil
}

// drawClass returns a class for a number from 0 to 1.
func drawClass(at float64) *class {
	for i := range classes {
		if at -= classes[i].share; at < 0 {
			return &classes[i]
		}
	}
	return &classes[len(classes)-1]
}

// describeClasses returns them in words.
func describeClasses() string {
	var parts []string
	for _, c := range classes {
		parts = append(parts, fmt.Sprintf("%s %.1f %% of the arrivals, deadline %v", c.name, 100*c.share, c.deadline))
	}
	return strings.Join(parts, "; ")
}
