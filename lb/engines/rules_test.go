package engines

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/engines/enginestest"
	"github.com/warmgate/warmgate/metrics"
)

func near(got, want float64) bool { return math.Abs(got-want) < 1e-9 }

func addrOf(i int) string { return fmt.Sprintf("10.0.0.%d:80", i+1) }

// sampleOf returns a sample with the given values: see [enginestest.Snapshot].
func sampleOf(t testing.TB, values fields) Sample {
	t.Helper()
	return Sample{Snapshot: enginestest.Snapshot(t, values)}
}

type fields = map[string]float64

// A sample as old as the limit is fresh, an older one is not.
func TestFresh(t *testing.T) {
	e := &engine{Sample: Sample{FreshAt: time.Minute}}
	for now, want := range map[time.Duration]bool{
		0: true, time.Minute: true, time.Minute + 3*time.Second: true, time.Minute + 3*time.Second + 1: false,
	} {
		if got := e.fresh(now, 3*time.Second); got != want {
			t.Errorf("at %v: fresh %v", now, got)
		}
	}
	if (*engine)(nil).fresh(0, time.Hour) {
		t.Error("an engine without a sample is fresh")
	}
}

// The batch size is what runs while others wait, a moving average; without a queue it is at least what runs.
func TestLearnBatchSize(t *testing.T) {
	for _, c := range []struct{ before, running, waiting, want float64 }{
		{0, 8, 0, 0},
		{0, 8, 2, 8},
		{0, 0, 2, 0},
		{10, 8, 2, 9.4},
		{10, 12, 2, 10.6},
		{10, 12, 0, 12},
		{10, 8, 0, 10},
		{10, 0, 2, 10},
		{10, 0, 0, 10},
	} {
		e, next := engine{batchSize: c.before}, sampleOf(t, fields{"running": c.running, "waiting": c.waiting})
		if e.learnBatchSize(&next); !near(e.batchSize, c.want) {
			t.Errorf("%+v: %v", c, e.batchSize)
		}
	}
	e, next := engine{}, sampleOf(t, fields{"running": 8, "waiting": 3, "deferred": 3})
	if e.learnBatchSize(&next); e.batchSize != 0 {
		t.Errorf("requests that are deferred make a batch of %v", e.batchSize)
	}
}

// External requests are those that two samples in a row contain beside the counted ones.
func TestLearnExternal(t *testing.T) {
	sample := func(running, waiting float64, counted int64, at time.Duration) Sample {
		s := sampleOf(t, fields{"running": running, "waiting": waiting})
		s.Counted, s.Inflight.Requests, s.ScrapedAt, s.At = counted >= 0, counted, at, at
		return s
	}
	var e engine
	for i, c := range []struct {
		s    Sample
		want float64
	}{
		{sample(5, 2, 4, 1), 0},
		{sample(5, 3, 4, 2), 3},
		{sample(5, 0, 4, 2), 3}, // a load report between two scrapes
		{sample(9, 0, 4, 3), 4},
		{sample(1, 0, 4, 4), 0},
		{sample(9, 0, -1, 5), 0},
		{sample(9, 0, 4, 6), 0},
		{sample(9, 0, 4, 7), 5},
	} {
		e.learnExternal(&c.s)
		if e.Sample = c.s; e.external != c.want {
			t.Errorf("sample %d: %v external requests, want %v", i, e.external, c.want)
		}
	}
}

// How many requests fit is the batch size or what the KV cache allows, less the external requests.
func TestCapacityOfAnEngine(t *testing.T) {
	for _, c := range []struct {
		name                string
		values              fields
		batchSize, external float64
		counted             bool
		want                float64
		known               bool
	}{
		{"nothing", fields{}, 0, 0, true, 0, false},
		{"batch", fields{"running": 3}, 8, 0, true, 8, true},
		{"external", fields{"running": 3}, 8, 10, true, -2, true},
		{"KV cache", fields{"running": 4, "use": 0.5}, 0, 1, true, 7.6 - 1, true},
		{"KV cache above the batch", fields{"running": 4, "use": 0.5}, 5, 0, true, 5, true},
		{"KV cache below the batch", fields{"running": 4, "use": 0.5}, 10, 0, true, 7.6, true},
		{"least use", fields{"running": 2, "use": 0.2}, 0, 0, true, 9.5, true},
		{"less use", fields{"running": 2, "use": 0.19}, 0, 0, true, 0, false},
		{"one request", fields{"running": 1, "use": 0.9}, 0, 0, true, 0, false},
		{"load report", fields{"waiting": 3}, 0, 0, true, 17, true},
		{"load report without a queue", fields{"waiting": 0}, 5, 0, true, 5, true},
		{"load report, not counted", fields{"waiting": 3}, 5, 0, false, 5, true},
	} {
		e := engine{Sample: sampleOf(t, c.values), batchSize: c.batchSize, external: c.external}
		e.Counted, e.Inflight.Requests = c.counted, 20
		if got, known := e.requestCapacity(); known != c.known || known && !near(got, c.want) {
			t.Errorf("%s: %v %v, want %v %v", c.name, got, known, c.want, c.known)
		}
	}
	for blocks, want := range map[float64]float64{100: 0.95*1600 - 20, 0: 0} {
		e := engine{Sample: sampleOf(t, fields{"blocks": blocks}), external: 2}
		if got, known := e.tokenCapacity(10); known != (blocks > 0) || known && !near(got, want) {
			t.Errorf("%v blocks: %v %v, want %v", blocks, got, known, want)
		}
	}
}

// Where tokens are counted, the lower of what the batch and the KV cache allow counts.
func TestCapacityInTokens(t *testing.T) {
	for _, c := range []struct {
		unit              lb.Unit
		batchSize, blocks float64
		want              float64
		known             bool
	}{
		{lb.Tokens, 8, 100, 8, true},
		{lb.Tokens, 8, 5, 7.6, true},
		{lb.Tokens, 0, 100, 152, true},
		{lb.Tokens, 8, 0, 8, true},
		{lb.Tokens, 0, 0, 0, false},
		{lb.Requests, 8, 5, 8, true},
	} {
		m := costModel{unit: c.unit, requestLoad: 10}
		e := &engine{Sample: sampleOf(t, fields{"blocks": c.blocks}), batchSize: c.batchSize}
		got, known := m.capacity(e)
		if known != c.known || known && !near(got, c.want) {
			t.Errorf("%+v: %v %v", c, got, known)
		}
		want := math.Inf(1)
		if c.known {
			want = c.want
		}
		if got := m.medianCapacity([]*engine{nil, e}); got != want && !near(got, want) {
			t.Errorf("%+v: a median of %v", c, got)
		}
	}
}

// The speed is that of the tokens of about a minute, known from minSpeedTokens on, and not above what can be.
func TestSpeed(t *testing.T) {
	e := engine{Sample: sampleOf(t, fields{"tokens": 1000, "seconds": 10}), recentTokens: 300, recentSeconds: 6}
	next := sampleOf(t, fields{"tokens": 1500, "seconds": 14})
	e.learnSpeed(&next, speedWindow.Seconds())
	if !near(e.recentTokens, 300/math.E+500) || !near(e.recentSeconds, 6/math.E+4) {
		t.Errorf("%v tokens in %v s", e.recentTokens, e.recentSeconds)
	}
	for _, c := range []struct{ tokens, seconds, want float64 }{
		{minSpeedTokens, 4, 50}, {minSpeedTokens - 1, 4, 0}, {1e6, 1, 1e6}, {1e6 + 1, 1, 0}, {1000, 0, 0}, {0, 0, 0},
	} {
		e := &engine{recentTokens: c.tokens, recentSeconds: c.seconds}
		if got := e.speed(); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	for _, c := range []struct{ speed, median, want float64 }{
		{0, 10, 1},
		{10, 0, 1},
		{10, 10, 1},
		{12.4, 10, 1},
		{12.5, 10, 1.25},
		{8.1, 10, 1},
		{8, 10, 0.8},
		{20, 10, 2},
		{800, 10, 8},
		{0.1, 10, 0.125},
	} {
		if got := relativeSpeed(c.speed, c.median); !near(got, c.want) {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// Rates are learned from two scrapes that are not too far apart, and from counters that have not been reset.
func TestLearnRates(t *testing.T) {
	for _, c := range []struct {
		name       string
		then, now  float64
		gap        time.Duration
		want       float64
		known      bool
		neverBefor bool
	}{
		{"growth", 10, 30, 4 * time.Second, 5, true, false},
		{"none", 10, 10, 4 * time.Second, 0, true, false},
		{"a reset", 10, 9, 4 * time.Second, 0, false, false},
		{"longest gap", 10, 310, maxSampleGap, 1, true, false},
		{"longer gap", 10, 310, maxSampleGap + 1, 0, false, false},
		{"back in time", 10, 30, -time.Second, 0, false, false},
		{"the same scrape", 10, 30, 0, 0, false, false},
		{"the first", 10, 30, time.Second, 0, false, true},
	} {
		e := &engine{Sample: sampleOf(t, fields{"counter": c.then, "running": 1})}
		if e.ScrapedAt = time.Hour; c.neverBefor {
			e.ScrapedAt = 0
		}
		next := sampleOf(t, fields{"counter": c.now, "running": 1})
		next.ScrapedAt = e.ScrapedAt + c.gap
		e.learn(&next)
		e.Sample = next
		if got, known := e.targetValue(1); known != c.known || known && !near(got, c.want) {
			t.Errorf("%s: %v %v, want %v %v", c.name, got, known, c.want, c.known)
		}
	}
	e := &engine{Sample: sampleOf(t, fields{"gauge": 7})}
	if got, known := e.targetValue(0); !known || got != 7 {
		t.Errorf("the gauge is %v %v", got, known)
	}
	if _, known := e.targetValue(1); known {
		t.Error("a counter that is missing is known")
	}
}

// The costs by load, of an engine with a sample and of one without, for which the medians are used.
func TestLoadCosts(t *testing.T) {
	cfg := &Config{}
	cfg.Weights.Running, cfg.Weights.Queue, cfg.Weights.KVCache, cfg.Weights.LoRA = 2, 3, 5, 7
	m := costModel{cluster: New(), cfg: cfg, requestLoad: 10, adapter: metrics.AdapterID("x")}
	sample := func(use, external, batchSize float64) *engine {
		s := sampleOf(t, fields{"use": use, "running": 1, "adapters": 2})
		return &engine{Sample: s, external: external, batchSize: batchSize}
	}
	cs := []lb.Candidate{{Weight: 2}, {Weight: 1, Base: 100}, {Weight: 4}, {Weight: 0.5}}
	m.addLoadCosts(cs, []*engine{sample(0.2, 4, 8), sample(0.6, 1, 3), nil, nil})
	lora := 7.0 // both slots are taken, and nothing waits for one
	want := []lb.Candidate{
		{Weight: 2, Slope: 2, Capacity: 4, OverSlope: 30, Base: 10*2*4/2.0 + 10*(5*0.2+lora)},
		{Weight: 1, Slope: 2, Capacity: 2, OverSlope: 30, Base: 2*100 + 10*3*(100/10-2) + 10*2*1 + 10*(5*0.6+lora)},
		{Weight: 4, Slope: 2, Base: 10*2*1/4.0 + 10*(5*0.2+lora)},
		{Weight: 0.5, Slope: 2, Base: 10*2*1/0.5 + 10*(5*0.2+lora)},
	}
	for i, c := range cs {
		if !near(c.Base, want[i].Base) {
			t.Errorf("candidate %d has a base cost of %v, want %v", i, c.Base, want[i].Base)
		}
		if c.Base = want[i].Base; c != want[i] {
			t.Errorf("candidate %d: %+v, want %+v", i, c, want[i])
		}
	}
	if got := meanKVUse([]*engine{sample(0.2, 0, 0), nil, sample(0.6, 0, 0), {}}); !near(got, 0.4) {
		t.Errorf("a mean use of %v", got)
	}
	if got := meanKVUse([]*engine{nil, {}}); got != 0 {
		t.Errorf("a mean use of %v without any", got)
	}
}

// An adapter costs nothing where it is in the batch, little where a slot is free, and more where it waits for one.
func TestLoRACost(t *testing.T) {
	for _, c := range []struct {
		name, adapter string
		slots         float64
		placed        map[string]int
		want          float64
	}{
		{"none", "", 2, nil, 0},
		{"in the batch", "a", 2, nil, 0},
		{"no free slot", "x", 2, nil, 1},
		{"a free slot", "x", 3, nil, 0.2},
		{"the free slot is taken", "x", 3, map[string]int{"y": 1}, 1},
		{"placed where it is loaded", "x", 3, map[string]int{"a": 1}, 0.2},
		{"just placed", "x", 2, map[string]int{"x": 1}, 0},
		{"waits", "w", 2, nil, 0.4},
		{"slots unknown", "x", -1, nil, 0.2},
	} {
		g, values := New(), fields{"running": 1}
		if c.slots >= 0 {
			values["adapters"] = c.slots
		}
		g.adapterRequests["e"] = map[uint64]int{}
		for name, n := range c.placed {
			g.adapterRequests["e"][metrics.AdapterID(name)] = n
		}
		m := costModel{cluster: g}
		if c.adapter != "" {
			m.adapter = metrics.AdapterID(c.adapter)
		}
		if got := m.loraCost(&engine{Sample: sampleOf(t, values)}, "e"); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// The median speed is that of the engines whose speed is known.
func TestMedianSpeed(t *testing.T) {
	g, cs := New(), []lb.Candidate{{Addr: "a"}, {Addr: "b"}, {Addr: "c"}, {Addr: "d"}, {Addr: "unknown"}}
	if got := g.medianSpeed(cs); got != 0 {
		t.Errorf("a median of %v without any", got)
	}
	for addr, seconds := range map[string]float64{"a": 10, "b": 20, "c": 40} {
		g.engines[addr] = &engine{recentTokens: 1000, recentSeconds: seconds}
	}
	g.engines["d"] = &engine{}
	if got := g.medianSpeed(cs); got != 50 {
		t.Errorf("a median of %v, want 50", got)
	}
}

// What a request that waits costs is the load of a typical one; until one was placed, about that of the request itself.
func TestTypicalRequest(t *testing.T) {
	for _, c := range []struct {
		unit           lb.Unit
		placed, tokens int64
		want           float64
	}{
		{lb.Requests, 0, 100, 4},
		{lb.Requests, 200, 100, 4},
		{lb.Tokens, 0, 0, 4},
		{lb.Tokens, 0, 100, 4 * 96},
		{lb.Tokens, 0, 5000, 4 * 4096},
		{lb.Tokens, 200, 100, 4 * 192},
	} {
		g, cfg := New(), &Config{StaleAfter: time.Hour, Weights: Weights{Running: 1, Queue: 4}}
		g.AddRequest("", addrOf(0), c.placed)
		s := sampleOf(t, fields{"running": 2, "waiting": 3})
		s.At, s.ScrapedAt = time.Second, time.Second
		g.Update(s.At, nil, map[string]Sample{addrOf(0): s})
		cs := []lb.Candidate{{Addr: addrOf(0), Slope: 1, Weight: 1}}
		plan := &lb.Plan{List: lb.NewList(cs), Unit: c.unit, Tokens: c.tokens}
		if got, _ := g.ApplyCosts(time.Second, plan, cfg, "", false); got.Candidates[0].OverSlope != c.want {
			t.Errorf("%s, one of %d tokens after %d: %v", c.unit, c.tokens, c.placed, got.Candidates[0].OverSlope)
		}
	}
}
