package simulate

import (
	"math"
	"testing"
	"time"

	"github.com/warmgate/warmgate/internal/enginesim"
	"github.com/warmgate/warmgate/internal/simulate/engine"
)

// always is a Chooser that takes one engine for all, and notes what it is told.
type always struct {
	t             *testing.T
	fleet         []*engine.Engine
	at            int
	chosen, first int
	last          []time.Duration
}

func (a *always) Choose(_ time.Duration, r *Request) int {
	if a.chosen++; r.Sent() < 0 || len(a.fleet) != 3 {
		a.t.Errorf("%d engines, sent at %v", len(a.fleet), r.Sent())
	}
	return a.at
}

func (a *always) First(now time.Duration, r *Request) {
	if a.first++; r.Server() != a.at || r.TTFT() != now-r.Sent() {
		a.t.Errorf("first token of %d after %v", r.Server(), r.TTFT())
	}
}

func (a *always) Last(now time.Duration, r *Request) {
	if a.last = append(a.last, (now-r.Sent())/time.Duration(max(1, r.Answer-1))); r.Cached() < 0 || r.Server() != a.at {
		a.t.Errorf("%d of %d cached", r.Cached(), r.Server())
	}
}

// TestChooser holds that a Chooser places every request, and that the engine which it takes becomes slower when it is
// to.
func TestChooser(t *testing.T) {
	load := &Sessions{Users: 1, Requests: 40, System: 100, Turns: 1, Question: 10, Answer: 10, Think: time.Second}
	slow := Engine{
		Times:   enginesim.Times{Speed: 1, DecodeStepMS: 10},
		Changes: []Change{{At: 20 * time.Second, Speed: 0.5}, {At: 2 * time.Hour, Speed: 9}},
	}
	a := &always{t: t, at: 2}
	c := Contender{Name: "always", Chooser: func(fleet []*engine.Engine, seed uint64) Chooser {
		if a.fleet = fleet; seed != 5 {
			t.Errorf("seed %d", seed)
		}
		return a
	}}
	r, err := Run(load.New(1), []Engine{{}, {}, slow}, c, 5, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.Policy != "always" || r.Uneven != 3 || a.chosen != 40 || a.first != 40 || len(a.last) != 40 {
		t.Errorf("%+v, %d chosen, %d first and %d last tokens", r, a.chosen, a.first, len(a.last))
	}
	// the first step only computes the prompt, and so takes no time
	if before, after := a.last[0].Seconds(), a.last[39].Seconds(); math.Abs(before-0.01) > 1e-3 ||
		math.Abs(after-0.02) > 1e-3 {
		t.Errorf("a token took %.4f s before and %.4f s after", before, after)
	}
}

// TestEnginesThatShare holds that engines with the same interference are on one processor, and others are not.
func TestEnginesThatShare(t *testing.T) {
	load := &Sessions{Users: 2, Requests: 40, System: 100, Turns: 1, Question: 10, Answer: 200, Ramp: time.Millisecond}
	e := Engine{Times: enginesim.Times{Speed: 1, DecodeStepMS: 10}}
	token := func(a, b *engine.Interference) float64 {
		fleet := Alike(2, e)
		fleet[0].Shares, fleet[1].Shares = a, b
		r, err := Run(load.New(1), fleet, Contender{Native: "round_robin"}, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		return r.PerToken
	}
	one, other := &engine.Interference{Decode: 1}, &engine.Interference{Decode: 1}
	if apart, together := token(one, other), token(one, one); apart != token(nil, nil) || together < 1.5*apart {
		t.Errorf("%.4f s a token on processors of their own, %.4f on one", apart, together)
	}
}
