package scripted

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/traffic"
	"github.com/warmgate/warmgate/internal/enginesim"
	"github.com/warmgate/warmgate/internal/vllmsim"
	"github.com/warmgate/warmgate/internal/vllmsim/vllmsimtest"
)

// TestUntil plays conversations at a server for so long, and then no more.
func TestUntil(t *testing.T) {
	const until = 300 * time.Millisecond
	server := vllmsimtest.StartT(t, vllmsim.Config{Config: enginesim.Config{MaxNumSeqs: 4, MaxQueued: -1}})
	client := loadgen.NewClient(loadgen.Options{URL: server.URL() + "/v1/chat/completions"})
	defer client.Close()
	scripts := traffic.Conversations(rand.New(rand.NewPCG(1, 2)), 999, nil, 3, 5, 5)
	p := Player{Client: client, Until: until}
	samples := p.Play(context.Background(), scripts, 2)
	if len(samples) < 4 || len(samples) > 100 {
		t.Fatalf("%d requests", len(samples))
	}
	for i := range samples {
		if s := &samples[i]; !s.OK() || s.Due > until+time.Second/2 {
			t.Errorf("%+v", s)
		}
	}
	if p.Begins[0] >= until || p.Begins[len(scripts)-1] < until {
		t.Errorf("the first script began at %v, the last at %v", p.Begins[0], p.Begins[len(scripts)-1])
	}
}

// TestOnlyTheWindowIsMeasured has a request of a second and a half begin every second. One more fails.
func TestOnlyTheWindowIsMeasured(t *testing.T) {
	const second = time.Second
	var samples []loadgen.Sample
	for i := range 6 {
		samples = append(samples, loadgen.Sample{
			Status: 200, Due: time.Duration(i) * second, Total: second * 3 / 2, Tokens: 10, Endpoint: "a",
			Usage: loadgen.Usage{Prompt: 100, Cached: 10 * i},
		})
	}
	samples[3].Endpoint = "b"
	samples = append(samples, loadgen.Sample{Due: 0, Error: loadgen.ErrReset})
	// Sent at 2, 3 and 4 s; those of 1, 2 and 3 s end in the window.
	f := Window{2 * second, 5 * second}.Figures(samples)
	if f.Summary.OK != 3 || math.Abs(f.Cached-0.3) > 1e-9 || f.Rate != 10 || f.Failed != 1 {
		t.Errorf("%+v", f)
	}
	if got := f.Uneven(4); math.Abs(got-8./3) > 1e-9 {
		t.Errorf("the busiest of four servers has %v times the mean, want 2 of 3 requests", got)
	}
	if f := (Window{}).Figures(nil); f.Rate != 0 || f.Cached != 0 || f.Uneven(3) != 0 {
		t.Errorf("of nothing: %+v", f)
	}
}
