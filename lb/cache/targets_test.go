package cache

import (
	"math"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmgate/warmgate/lb"
)

// targeted is a fleet whose answers a tracker has seen for a minute, at these mean loads.
func targeted(seed uint64, loads []float64, slower ...float64) (*Tracker, *fleet) {
	c, f := NewTracker(), newFleet(seed, slower...)
	c.InTime(f.now, fleetList(len(slower)), oneModel, lb.Target{TTFT: time.Second})
	f.paces, f.load = &c.paces, loads
	f.run(time.Minute)
	return c, f
}

const tokenTarget = 16 * time.Millisecond

var oneModel = &lb.Request{ModelName: 1, PromptTokens: 1000}

// A server that cannot give tokens in time even alone costs from its first request on, and one that can from about as
// many as it can: twelve, of those that the fleet simulates, or twice what each has to take.
func TestServersAreInTime(t *testing.T) {
	for seed := range uint64(20) {
		c, f := targeted(seed, []float64{5, 1}, 1, 3)
		got := c.InTime(f.now, fleetList(2), oneModel, lb.Target{PerToken: tokenTarget}).Candidates
		if n := got[0].Capacity; n < 4 || n > 20 || got[0].OverSlope <= 0 {
			t.Errorf("seed %d: %g requests are said to be in time at %g each", seed, n, got[0].OverSlope)
		}
		if got[1].Capacity >= 1 || got[1].OverSlope <= got[0].OverSlope {
			t.Errorf("seed %d: a server that is always late: %+v", seed, got[1])
		}
	}
}

// Where the first token comes in time is learned for each length of prompts, by all workers together.
func TestFirstTokensInTime(t *testing.T) {
	c, f := targeted(1, []float64{4, 4}, 1, 1)
	other, _ := targeted(2, []float64{4, 4}, 1, 1)
	shared := &memory{}
	answer := func(i int, prompt int64, ttft float64) {
		n := math.Round(1 + 7*f.rng.Float64())
		c.Observe(f.now, time.Hour, lb.Outcome{
			Addr: fleetAddr(i), Model: 1, PlannedPrompt: prompt, Load: n,
			TTFT: time.Duration(ttft * n * (0.95 + 0.1*f.rng.Float64()) * float64(time.Second)), Duration: time.Minute,
		})
	}
	for range 200 {
		f.now += time.Second / 4
		answer(0, 1000, 0.1)
		answer(1, 1000, 0.1)
		answer(0, 60000, 0.4)
		answer(1, 60000, 0.4)
	}
	c.ExchangeFirsts(f.now, shared, "key")
	most := func(prompt int64) float64 {
		r := &lb.Request{ModelName: 1, PromptTokens: prompt}
		target, later := lb.Target{TTFT: 3 * time.Second}, f.now+summaryInterval
		other.InTime(f.now, fleetList(2), r, target)
		other.ExchangeFirsts(later, shared, "key")
		if own, others := c.firsts, other.firsts; !reflect.DeepEqual(own.kinds, others.kinds) {
			t.Fatalf("a worker knows %+v, another one %+v", own.kinds, others.kinds)
		}
		return other.InTime(later, fleetList(2), r, target).Candidates[0].Capacity
	}
	if short, long := most(1000), most(60000); short <= long || long < 5 {
		t.Errorf("%g short prompts are in time, and %g long ones", short, long)
	}
	if other := most(200); other != 0 {
		t.Errorf("of prompts that were never seen %g are said to be in time", other)
	}
}

// Times to the first token are learned while somebody has a target, and for ten minutes more: not before there is one,
// nor because a trial has one.
func TestFirstTimesAreLearnedForTargets(t *testing.T) {
	target := lb.Target{PerToken: time.Second} // a header may add the other time
	trial := *oneModel
	trial.Trial = true
	for name, c := range map[string]struct {
		request *lb.Request
		target  lb.Target
		later   time.Duration
		learned bool
	}{
		"no target":        {oneModel, lb.Target{}, 0, false},
		"a target":         {oneModel, target, 0, true},
		"a trial's":        {&trial, target, 0, false},
		"it had one":       {oneModel, target, idleEndpointTTL, true},
		"it had one, once": {oneModel, target, idleEndpointTTL + 1, false},
	} {
		tracker := NewTracker()
		tracker.InTime(0, fleetList(1), c.request, c.target)
		tracker.Observe(c.later, time.Hour, lb.Outcome{
			Addr: fleetAddr(0), PlannedPrompt: 1000, TTFT: time.Second, Duration: time.Minute,
		})
		if got := len(tracker.firsts.endpoints) > 0; got != c.learned {
			t.Errorf("%s: learned is %t", name, got)
		}
	}
}

// Without a target, without answers, for another model, once answers are forgotten, for a target that no server could
// meet, and for one that all meet at any load, the list stays the one that it was.
func TestListsStayWithoutKnowledge(t *testing.T) {
	c, f := targeted(1, []float64{5, 2}, 1, 2)
	list := fleetList(2)
	for name, got := range map[string]lb.List{
		"no target":     c.InTime(f.now, list, oneModel, lb.Target{}),
		"no answers":    NewTracker().InTime(f.now, list, oneModel, lb.Target{TTFT: 1, PerToken: 1}),
		"another model": c.InTime(f.now, list, &lb.Request{ModelName: 2}, lb.Target{PerToken: tokenTarget}),
		"no first":      c.InTime(f.now, list, oneModel, lb.Target{TTFT: time.Millisecond}),
		"forgotten":     c.InTime(f.now+5*time.Minute, list, oneModel, lb.Target{PerToken: tokenTarget}),
		"hopeless":      c.InTime(f.now, list, oneModel, lb.Target{PerToken: time.Millisecond}),
		"met":           c.InTime(f.now, list, oneModel, lb.Target{PerToken: time.Minute}),
	} {
		if got.Digest() != list.Digest() {
			t.Errorf("%s: %+v", name, got.Candidates)
		}
	}
}

// While the servers together have not the room, a target changes nothing: all are late.
func TestNoTargetWithoutRoom(t *testing.T) {
	c, f := targeted(1, []float64{40, 40}, 1, 1)
	list := fleetList(2)
	if got := c.InTime(f.now, list, oneModel, lb.Target{PerToken: tokenTarget}); got.Digest() != list.Digest() {
		t.Errorf("%+v", got.Candidates)
	}
}

// A server that is new counts as the others do, and one that says that its tokens take a hundredth of the time has
// twice the place of the next one at most.
func TestInTimeOfNewServersAndLiars(t *testing.T) {
	c, f := targeted(1, []float64{5, 5, 5}, 1, 1, 0.01)
	got := c.InTime(f.now, fleetList(4), oneModel, lb.Target{PerToken: tokenTarget}).Candidates
	honest := max(got[0].Capacity, got[1].Capacity, 5)
	if liar := got[2].Capacity; liar > maxLead*honest*math.Exp2(1.0/inTimeSteps) {
		t.Errorf("%g requests are in time at an honest server, %g at a liar", honest, liar)
	}
	if got[3].Capacity < min(got[0].Capacity, got[1].Capacity) || got[3].Capacity > honest {
		t.Errorf("a new server: %g requests in time, others: %g", got[3].Capacity, honest)
	}
}

// An engine's own capacity stays where it is less.
func TestCapacityOfEnginesStays(t *testing.T) {
	c, f := targeted(1, []float64{5, 5}, 1, 1)
	list := lb.NewList([]lb.Candidate{
		{Addr: fleetAddr(0), Slope: 1, Weight: 1, Capacity: 2, OverSlope: 7},
		{Addr: fleetAddr(1), Slope: 1, Weight: 1, Capacity: 500, OverSlope: 7},
	})
	got := c.InTime(f.now, list, oneModel, lb.Target{PerToken: tokenTarget}).Candidates
	if got[0] != list.Candidates[0] || got[1].Capacity >= 100 || got[1].OverSlope == 7 {
		t.Errorf("%+v", got)
	}
}

// Whatever answers and targets are: numbers of requests are above 0, costs are numbers, and a longer time never has
// fewer requests in it.
func TestTargetsAreBounded(t *testing.T) {
	const maxCounted = 2 << 40 // tokens: a prompt and an answer as long as requests may say
	rapid.Check(t, func(rt *rapid.T) {
		c, now := NewTracker(), time.Duration(0)
		c.InTime(now, fleetList(3), oneModel, lb.Target{TTFT: time.Second})
		duration := func(name string) time.Duration { return time.Duration(rapid.Int64Min(-1).Draw(rt, name)) }
		for range rapid.IntRange(1, 100).Draw(rt, "answers") {
			now += time.Duration(rapid.Int64Range(-1e9, 1e9).Draw(rt, "later"))
			c.Observe(now, time.Hour, lb.Outcome{
				Addr: fleetAddr(rapid.IntRange(0, 2).Draw(rt, "endpoint")), Model: 1, Streamed: true,
				PerToken: duration("per token"), OutputTokens: rapid.Int64().Draw(rt, "output"),
				TTFT: duration("ttft"), Duration: duration("duration"), Load: rapid.Float64().Draw(rt, "load"),
				PlannedPrompt: rapid.Int64Range(-1, 4).Draw(rt, "prompt"),
				CountedTokens: rapid.Int64Range(-1, maxCounted).Draw(rt, "counted"),
			})
		}
		r := &lb.Request{ModelName: 1, PromptTokens: rapid.Int64Range(-1, 4).Draw(rt, "tokens")}
		target := lb.Target{TTFT: duration("wanted"), PerToken: duration("wanted per token")}
		for _, o := range c.InTime(now, fleetList(3), r, target).Candidates {
			if o.OverSlope != 0 && !(o.Capacity >= minInTime/2 && o.Capacity < maxInTime) ||
				!(o.OverSlope >= 0 && o.OverSlope <= maxCounted*lateCost/minInTime) {
				rt.Fatalf("%+v", o)
			}
		}
		for i := range 3 {
			p, kind := &c.paces.paceState, answerKind{1, true}
			limit := time.Duration(rapid.Int64Range(1, math.MaxInt64/2).Draw(rt, "limit"))
			less := p.within(now, fleetAddr(i), kind, limit, tokenMargin, maxTokenSlope)
			more := p.within(now, fleetAddr(i), kind, 2*limit, tokenMargin, maxTokenSlope)
			if !(more >= less && less > 0) {
				rt.Fatalf("%g requests within %v, %g within twice that", less, limit, more)
			}
		}
	})
}

// Numbers of requests are taken down to a step, and steps stay.
func TestStepped(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.Float64Range(minInTime, maxInTime).Draw(rt, "n")
		s := stepped(n)
		if s > n || s*math.Exp2(1.0/inTimeSteps) < n*(1-1e-9) {
			rt.Fatalf("%g is %g", n, s)
		}
	})
}
