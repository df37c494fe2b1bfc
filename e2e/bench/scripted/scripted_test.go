package scripted

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/traffic"
	"github.com/warmgate/warmgate/e2e/vllmsim"
)

// TestUntil plays conversations at a server for so long, and then no more.
func TestUntil(t *testing.T) {
	const until = 300 * time.Millisecond
	server := vllmsim.New(vllmsim.Config{MaxNumSeqs: 4, MaxQueued: -1, Tuning: vllmsim.DefaultTuning()})
	if err := server.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	defer server.Close()
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
