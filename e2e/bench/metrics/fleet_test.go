package metrics

import (
	"math"
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
