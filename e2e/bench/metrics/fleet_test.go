package metrics

import (
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/loadgen"
)

func made(t *testing.T) *fleet {
	t.Helper()
	f, err := newFleet()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestFleetIsUnequal compares the fleet with its description in the report.
func TestFleetIsUnequal(t *testing.T) {
	f := made(t)
	if len(f.servers) != 8 {
		t.Fatalf("%d servers", len(f.servers))
	}
	for i, c := range f.servers {
		fast, small := i < 2, i >= 6
		if (c.Tuning.Speed == 2) != fast || (f.slots[i] < c.MaxNumSeqs) != small {
			t.Errorf("server %d: speed %v, %d of %d sequences at once", i, c.Tuning.Speed, f.slots[i], c.MaxNumSeqs)
		}
		if err := c.Tuning.Validate(); err != nil {
			t.Error(err)
		}
		if ratio := f.capacity[i] / f.capacity[2]; fast && ratio != 2 || small && (ratio < 0.5 || ratio > 0.9) {
			t.Errorf("server %d has %.2f times the capacity of a slow one", i, ratio)
		}
	}
	longest := workload(0)
	tokens := longest.Prompt.(loadgen.LogNormal).Max + longest.Output.(loadgen.LogNormal).Max
	const template = 16 // roles, and what is put between messages
	if room := smallCache * engine().BlockSize; tokens+template > room {
		t.Errorf("a request may have %d tokens, a small KV cache has room for %d", tokens, room)
	}
}

// TestLoadIsAsConfigured adds up the load of the requests.
func TestLoadIsAsConfigured(t *testing.T) {
	f := made(t)
	reqs, err := compare.AtLoad(workload(3), f.servers, 0.8, 200*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	span := reqs[len(reqs)-1].Due.Seconds()
	if rate := float64(len(reqs)) / span; math.Abs(rate/(0.8*sum(f.capacity))-1) > 0.05 {
		t.Errorf("%.0f requests a second of a capacity of %.0f", rate, sum(f.capacity))
	}
	if got := compare.Capacity(f.servers, reqs); math.Abs(got/sum(f.capacity)-1) > 0.05 {
		t.Errorf("a capacity of %.0f by these requests, of %.0f by typical ones", got, sum(f.capacity))
	}
	base := 0
	for i := range reqs {
		if strings.Contains(string(reqs[i].Body), `"model":"`+baseModel+`"`) {
			base++
		}
	}
	if share := float64(base) / float64(len(reqs)); math.Abs(share-0.6) > 0.02 {
		t.Errorf("%.2f of the requests are for the base model, want 0.6", share)
	}
	if text := describeModels(); !strings.HasPrefix(text, "sim 60 %, adapter-1 16 %, ") ||
		!strings.HasSuffix(text, "adapter-6 3 %") {
		t.Errorf("the models are described as %q", text)
	}
}

func TestImbalanceIsByCapacity(t *testing.T) {
	f := made(t)
	reqs := make([]loadgen.Request, 10_000)
	for i := range reqs {
		reqs[i] = loadgen.Request{ID: i, Prompt: 400, MaxTokens: 40}
	}
	at := func(server func(i int) int) float64 {
		samples := make([]loadgen.Sample, len(reqs))
		for i := range samples {
			samples[i] = loadgen.Sample{ID: i, Endpoint: strconv.Itoa(server(i))}
		}
		return f.imbalance(samples, reqs)
	}
	if got := at(func(int) int { return 2 }); math.Abs(got-8) > 1e-9 {
		t.Errorf("all on one: %v", got)
	}
	// The fast ones get twice as much as the slow ones.
	in := []int{0, 0, 1, 1, 2, 3, 4, 5}
	if got := at(func(i int) int { return in[i%len(in)] }); math.Abs(got-8./6) > 0.01 {
		t.Errorf("six of eight in proportion: %v, want 8/6", got)
	}
	if got := at(func(int) int { return -1 }); got != 0 {
		t.Errorf("nothing served: %v", got)
	}
}

// picks makes a run of so many windows of n requests each; choose returns where the k-th of a window goes.
func picks(windows, n int, choose func(w, k int) int) []loadgen.Sample {
	var out []loadgen.Sample
	for w := range windows {
		for k := range n {
			at := time.Duration(w)*window + window*time.Duration(k)/time.Duration(n)
			out = append(out, loadgen.Sample{Endpoint: strconv.Itoa(choose(w, k)), Sent: at, Due: at})
		}
	}
	return out
}

func near(a, b, by float64) bool { return math.Abs(a-b) <= by }

func TestHerdOf(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	weighted := func() int { // shares 4/10, 3/10, 2/10, 1/10
		return []int{0, 0, 0, 0, 1, 1, 1, 2, 2, 3}[r.IntN(10)]
	}
	byChance := math.Sqrt(3. / 100)
	for _, c := range []struct {
		name       string
		samples    []loadgen.Sample
		cv, chance float64
		windows    int
	}{
		{"in turn", picks(50, 100, func(_, k int) int { return k % 4 }), 0, byChance, 50},
		{
			"shares that last are no herd", picks(50, 100, func(_, k int) int { return min(k/40, 3) }), 0,
			math.Sqrt(2. / 100), 50,
		},
		{"at random", picks(4000, 100, func(int, int) int { return r.IntN(4) }), byChance, byChance, 4000},
		{
			"at random, with unequal shares", picks(4000, 100, func(int, int) int { return weighted() }), byChance,
			byChance, 4000,
		},
		{
			"all to another one every time", picks(40, 100, func(w, _ int) int { return w % 4 }), math.Sqrt(3),
			byChance, 40,
		},
		{"half of them to another one every time", picks(40, 100, func(w, k int) int {
			if k%2 == 0 {
				return w % 4
			}
			return k / 2 % 4
		}), math.Sqrt(3) / 2, byChance, 40},
		{"windows with too few", picks(50, 4*fewest-1, func(_, k int) int { return k % 4 }), 0, 0, 0},
		{"nothing served", picks(50, 100, func(int, int) int { return -1 }), 0, 0, 0},
	} {
		h := herdOf(c.samples, 4)
		if !near(h.CV, c.cv, 0.011) || !near(h.Chance, c.chance, 1e-9) || h.Windows != c.windows {
			t.Errorf("%s: %+v, want %.3f, %.3f by chance, %d windows", c.name, h, c.cv, c.chance, c.windows)
		}
	}
}

func TestHerdBeyondChance(t *testing.T) {
	for _, c := range []struct {
		h    herd
		want float64
	}{{herd{CV: 0.5, Chance: 0.3}, 0.4}, {herd{CV: 0.2, Chance: 0.3}, 0}, {herd{}, 0}} {
		if got := c.h.excess(); !near(got, c.want, 1e-9) {
			t.Errorf("%+v: %v, want %v", c.h, got, c.want)
		}
	}
}
