package health

import (
	"math"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// evidence is the logarithm of a likelihood ratio relative to that of a failure that occurs nowhere else.
func evidence(ratio float64) float64 { return math.Log(ratio) / math.Log(failingShare/minFailureShare) }

func TestFailureWeight(t *testing.T) {
	for elsewhere, want := range map[float64]float64{
		minFailureShare: 1, 0.1: evidence(9), 0.3: evidence(3), 0.4999: evidence(0.9 / 0.4999), 0.5: 0, 0.9: 0, 1: 0,
	} {
		if got := failureWeight(elsewhere); !near(got, want) {
			t.Errorf("a failure weighs %v if %v fail elsewhere, want %v", got, elsewhere, want)
		}
	}
	for elsewhere, want := range map[float64]float64{
		minFailureShare: evidence(9.8), 0.5: evidence(5), failingShare: 0,
	} {
		if got := successWeight(elsewhere); !near(got, want) {
			t.Errorf("a success weighs %v if %v fail elsewhere, want %v", got, elsewhere, want)
		}
	}
}

// failing is an outcome of a known client, which has not failed elsewhere.
func failing(v lb.Verdict, client uint64) lb.Outcome {
	return lb.Outcome{Addr: addrOf(0), Verdict: v, Client: client}
}

// A failure moves the rates up by their gains, and a success down. The score follows the weights, and is never
// negative.
func TestRatesAndScore(t *testing.T) {
	h, cfg := healthOf(0, 0, 0), &ClusterConfig{}
	e := h.endpoints[addrOf(0)]
	want := func(when string, rate, longRate, score float64) {
		t.Helper()
		if !near(e.rate, rate) || !near(e.longRate, longRate) || !near(e.score, score) {
			t.Errorf("%s: rate %v, long-term %v, score %v, want %v, %v and %v", when, e.rate, e.longRate, e.score,
				rate, longRate, score)
		}
	}
	const long = longRateGain
	h.Observe(time.Minute, failing(lb.Failure, 1), cfg)
	want("one failure", rateGain, long, 1)
	h.Observe(time.Minute, failing(lb.Failure, 2), cfg)
	want("two failures", rateGain+rateGain*(1-rateGain), long+long*(1-long), 2)
	h.Observe(time.Minute+rateHalfLife, failing(lb.Success, 3), cfg)
	rate := (rateGain + rateGain*(1-rateGain)) / 2 * (1 - rateGain)
	want("a success later", rate, (long+long*(1-long))*(1-long), 2-evidence(9.8))
	for range 10 {
		h.Observe(time.Minute+rateHalfLife, failing(lb.Success, 3), cfg)
	}
	if e.score != 0 {
		t.Errorf("a score of %v", e.score)
	}
}

// An outcome without weight for an endpoint leaves it as it was.
func TestOutcomesWithoutWeight(t *testing.T) {
	waited := func(d time.Duration, busy bool) lb.Outcome {
		return lb.Outcome{Addr: addrOf(0), Verdict: lb.TimedOut, WaitedFor: d, Busy: busy, Client: 1}
	}
	for _, c := range []struct {
		name   string
		o      lb.Outcome
		served time.Duration // when another request was, 0 for never
		counts bool
	}{
		{"neutral", failing(lb.Neutral, 1), 0, false},
		{"of another endpoint", lb.Outcome{Addr: "10.9.9.9:1", Verdict: lb.Failure}, 0, false},
		{"a timeout", waited(minTimeout, false), 0, true},
		{"a short timeout", waited(minTimeout-1, false), 0, false},
		{"a timeout of a busy endpoint", waited(minTimeout, true), 0, false},
		{"a timeout after a success", waited(10*time.Second, false), 50*time.Second - 1, true},
		{"a timeout as long as since a success", waited(10*time.Second, false), 50 * time.Second, false},
		{"a timeout with a success in it", waited(10*time.Second, false), 55 * time.Second, false},
	} {
		h := healthOf(0, 0)
		e := h.endpoints[addrOf(0)]
		e.servedSources[0].at = c.served
		h.Observe(time.Minute, c.o, &ClusterConfig{})
		if (e.rate > 0) != c.counts || (h.lastFailureAt > 0) != c.counts {
			t.Errorf("%s: rate %v, latest failure at %v", c.name, e.rate, h.lastFailureAt)
		}
	}
}

// Requests that retries serve elsewhere may eject an endpoint once it has served none for retriedFor.
func TestRetriedFor(t *testing.T) {
	for _, c := range []struct {
		after time.Duration
		busy  bool
		want  float64
	}{
		{retriedFor - 1, false, 0},
		{retriedFor, false, 2},
		{retriedFor + 1, false, 2},
		{retriedFor, true, 0},
	} {
		e, o := endpointHealth{}, failing(lb.Retried, 1)
		if got := e.addFailure(time.Minute, &o, 1); got != 0 || e.retriedSince != time.Minute {
			t.Errorf("the first one has a score of %v", got)
		}
		o.Busy = c.busy
		if got := e.addFailure(time.Minute+c.after, &o, 1); got != c.want || e.score != 0 {
			t.Errorf("%+v: a score of %v", c, got)
		}
		if o.Busy = false; c.busy && (e.addFailure(time.Hour, &o, 1) != 0 || e.retriedSince != time.Hour) {
			t.Error("the time of a busy endpoint is not counted from its next one")
		}
	}
	e, o := endpointHealth{}, failing(lb.Overload, 1)
	if got := e.addFailure(time.Hour, &o, 1); got != 0 || e.score != 0 || e.retried != 0 {
		t.Errorf("an overload has a score of %v", got)
	}
}

// A source that fails again within sourceInterval repeats itself, while others are served, as long as one client fails.
func TestRepeats(t *testing.T) {
	const now = time.Hour
	for _, c := range []struct {
		name    string
		again   time.Duration // after the first failure
		served  time.Duration // how long ago a request of another source was
		source  uint64
		clients [2]uint64
		want    bool
	}{
		{"at once", 0, 0, 5, [2]uint64{1, 1}, true},
		{"just within the interval", sourceInterval - 1, 0, 5, [2]uint64{1, 1}, true},
		{"after the interval", sourceInterval, 0, 5, [2]uint64{1, 1}, false},
		{"served just within the window", 0, successWindow - 1, 5, [2]uint64{1, 1}, true},
		{"served before the window", 0, successWindow, 5, [2]uint64{1, 1}, false},
		{"another client", 0, 0, 5, [2]uint64{1, 2}, false},
		{"unknown source", 0, 0, 0, [2]uint64{0, 0}, false},
		{"the client is the source", 0, 0, 0, [2]uint64{1, 1}, true},
	} {
		e := endpointHealth{}
		e.servedSources[0] = sighting{99, now + c.again - c.served}
		first := lb.Outcome{Verdict: lb.Failure, Source: c.source, Client: c.clients[0]}
		second := lb.Outcome{Verdict: lb.Failure, Source: c.source, Client: c.clients[1]}
		if e.isRepeat(now, &first) {
			t.Errorf("%s: the first failure is a repeat", c.name)
		}
		if got := e.isRepeat(now+c.again, &second); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// The latest maxSources sources are remembered.
func TestRememberedSources(t *testing.T) {
	of := func(source uint64) *lb.Outcome { return &lb.Outcome{Verdict: lb.Failure, Client: 1, Source: source} }
	for others, want := range map[int]bool{0: true, 1: true, maxSources - 1: true, maxSources: false} {
		e := endpointHealth{}
		e.servedSources[1] = sighting{99, time.Hour}
		e.isRepeat(time.Hour, of(5))
		for i := range others {
			e.isRepeat(time.Hour, of(10+uint64(i)))
		}
		if got := e.isRepeat(time.Hour, of(5)); got != want {
			t.Errorf("after %d other sources: a repeat %v", others, got)
		}
	}
	e := endpointHealth{}
	e.servedSources[0] = sighting{99, time.Hour}
	for _, source := range []uint64{5, 6, 5, 6, 5, 6} { // repeats do not push others out
		e.isRepeat(time.Hour, of(source))
	}
	if e.failedSources[0].source != 6 || e.failedSources[1].source != 5 || e.failedSources[2].source != 0 {
		t.Errorf("remembered: %+v", e.failedSources)
	}
}

// The latest two sources that were served are remembered; one that is served again stays where it is.
func TestServedSources(t *testing.T) {
	h := healthOf(0)
	e := h.current[0]
	for i, source := range []uint64{5, 6, 6, 6} {
		o := lb.Outcome{Addr: addrOf(0), Verdict: lb.Success, Source: source}
		h.Observe(time.Minute+time.Duration(i), o, &ClusterConfig{})
	}
	if e.servedSources != [2]sighting{{6, time.Minute + 3}, {5, time.Minute}} {
		t.Errorf("remembered: %+v", e.servedSources)
	}
	if !e.servedOthers(time.Minute, 6) || !e.servedOthers(time.Minute, 5) || !e.servedOthers(time.Minute, 7) {
		t.Error("a source is not known")
	}
}

// A success long after the end of an ejection clears the count of ejections. One after a failure changes the weight.
func TestSuccessAfterAnEjection(t *testing.T) {
	for after, want := range map[time.Duration]int{0: 3, forgetEjectionsAfter: 3, forgetEjectionsAfter + 1: 0} {
		h := healthOf(0)
		e := h.current[0]
		e.times, e.until = 3, time.Minute
		h.Observe(time.Minute+after, failing(lb.Success, 1), &ClusterConfig{})
		if e.times != want {
			t.Errorf("%v after its end: %d ejections, want %d", after, e.times, want)
		}
	}
	for rate, want := range map[float64]bool{0: false, 0.5: true} {
		h := healthOf(rate)
		version := h.version
		if h.Observe(time.Minute, failing(lb.Success, 1), &ClusterConfig{}); (h.version > version) != want {
			t.Errorf("after a success with a failure rate of %v lists are computed again: %v", rate, !want)
		}
	}
}

// A failure that others have as well moves the rate less.
func TestRateByWeight(t *testing.T) {
	h := healthOf(0.2, 0.1, 0.1)
	h.Observe(time.Minute, failing(lb.Failure, 1), &ClusterConfig{})
	if got, want := h.current[0].rate, 0.2+rateGain*evidence(9)*0.8; !near(got, want) {
		t.Errorf("a failure rate of %v, want %v", got, want)
	}
	if got, want := h.current[0].longRate, 0.2+longRateGain*(evidence(9)-0.2); !near(got, want) {
		t.Errorf("a long-term rate of %v, want %v", got, want)
	}
}

// An endpoint is ejected by the configured number of failures, unless it is ejected already or the number is 0.
