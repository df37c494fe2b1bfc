package lb

import (
	"math/rand/v2"
	"testing"
	"time"
)

// answers has that many answers observed, 100 ms apart, and returns the limit then.
func answers(l *PushLimits, now *time.Duration, n int, ttft time.Duration, inflight int64) int64 {
	for range n {
		*now += 100 * time.Millisecond
		l.Observe(*now, FirstPart{Addr: "a", PlacedAt: *now - ttft, Inflight: inflight, Whole: ttft == 0})
	}
	limit, _ := l.Limit("a")
	return limit
}

// How a limit follows the time to first token, when the base is known and was measured in a probe.
func TestLimitFollowsTTFT(t *testing.T) {
	const base = 100 * time.Millisecond
	for _, c := range []struct {
		name     string
		ttft     time.Duration
		inflight int64
		want     int64
	}{
		{"fast, limit reached", base, 100, 101},
		{"fast, limit nearly reached", base, 90, 101},
		{"fast, limit not reached", base, 89, 100},
		{"a little slower", 139 * time.Millisecond, 100, 101},
		{"slower", 141 * time.Millisecond, 100, 100},
		{"nearly too slow", 219 * time.Millisecond, 100, 100},
		{"too slow", 221 * time.Millisecond, 100, 90},
		{"too slow, half of the limit", 221 * time.Millisecond, 50, 90},
		{"too slow, but not in flight", 221 * time.Millisecond, 49, 100},
	} {
		l, now := NewPushLimits(nil), time.Hour
		p := l.endpoint(now, "a")
		p.limit, p.step = 100, 1
		p.ttft.probed, p.ttft.best[0] = true, base.Seconds()
		if got := answers(l, &now, shortAnswers-1, c.ttft, c.inflight); got != 100 {
			t.Errorf("%s: limit %d too early", c.name, got)
		}
		if got := answers(l, &now, 1, c.ttft, c.inflight); got != c.want {
			t.Errorf("%s: limit %d, want %d", c.name, got, c.want)
		}
	}
}

// While there is a fresh sample, times change nothing; when it is stale, they go on with what the samples showed.
func TestSamplesComeBeforeTTFT(t *testing.T) {
	l, now := NewPushLimits(nil), time.Hour
	l.staleAfter = time.Second
	p := l.endpoint(now, "a")
	p.limit, p.step, p.ttft.probed, p.ttft.best[0] = 100, 1, true, 0.1
	p.freshAt = now + 10*time.Second
	if got := answers(l, &now, 3*shortAnswers, time.Second, 100); got != 100 {
		t.Errorf("limit %d with a fresh sample", got)
	}
	if got := answers(l, &now, shortAnswers, time.Second, 100); got != 90 {
		t.Errorf("limit %d with a stale one", got)
	}
}

// An endpoint without samples that streams no answers has no limit, until it does.
func TestNothingToLearnFrom(t *testing.T) {
	l, now := NewPushLimits(nil), time.Hour
	if n, known := l.Limit("a"); n != 0 || known {
		t.Error("an unknown endpoint has a limit")
	}
	if got := answers(l, &now, maxUnmeasured-1, 0, 5); got != firstPush {
		t.Errorf("limit %d too early", got)
	}
	if got := answers(l, &now, 1, 0, 5); got != 0 {
		t.Errorf("limit %d", got)
	}
	if cs := l.Apply(now, []Candidate{{Addr: "a", Cap: 7}}, 0); cs[0].Cap != 7 {
		t.Errorf("cap %d", cs[0].Cap)
	}
	if got := answers(l, &now, 1, time.Second, 5); got != firstPush {
		t.Errorf("limit %d once there are times", got)
	}
}

// streamingEngine is an engine of which only the times of answers are known. As many requests as the limit allows are
// in flight.
type streamingEngine struct {
	now            time.Duration
	random         *rand.Rand
	limits         []*PushLimits // of several VMs
	batch          int
	spread         float64 // part of the time of prefill that differs between prompts
	running, queue []streamedAnswer
}

type streamedAnswer struct {
	FirstPart
	limits  *PushLimits
	firstAt time.Duration
	begun   bool
}

func (e *streamingEngine) run(d time.Duration) (meanLimit, meanQueue float64) {
	const tick, prefill, meanTime = 100 * time.Millisecond, float64(200 * time.Millisecond), 4.0
	n := 0.0
	for end := e.now + d; e.now < end; e.now += tick {
		var left []streamedAnswer
		for _, a := range e.running {
			if e.now >= a.firstAt && !a.begun {
				a.begun = true
				a.limits.Observe(e.now, a.FirstPart)
			}
			if !a.begun || e.random.Float64() > tick.Seconds()/meanTime {
				left = append(left, a)
			}
		}
		e.running = left
		for _, k := range e.random.Perm(len(e.limits)) {
			cs := e.limits[k].Apply(e.now, []Candidate{{Addr: "a", Weight: 1}}, 0)
			for inflight := len(e.running) + len(e.queue); inflight < int(cs[0].Cap); inflight++ {
				f := FirstPart{Addr: "a", PlacedAt: e.now, Inflight: int64(inflight + 1)}
				e.queue = append(e.queue, streamedAnswer{FirstPart: f, limits: e.limits[k]})
			}
		}
		inflight := len(e.running) + len(e.queue)
		for len(e.queue) > 0 && len(e.running) < e.batch {
			a := e.queue[0]
			spread := 1 - e.spread + e.spread*e.random.ExpFloat64()
			a.firstAt = e.now + tick*time.Duration(e.random.IntN(3)) - tick + time.Duration(spread*prefill)
			e.queue, e.running = e.queue[1:], append(e.running, a)
		}
		meanLimit, meanQueue, n = meanLimit+float64(inflight), meanQueue+float64(len(e.queue)), n+1
	}
	return meanLimit / n, meanQueue / n
}

// The limit of a saturated engine without metrics finds its batch and stays there, also if it was above from the start,
// and if prompts differ much.
func TestTTFTFindsTheBatch(t *testing.T) {
	for _, c := range []struct {
		batch, vms int
		spread     float64
	}{
		{3, 1, 0},
		{13, 1, 0},
		{61, 1, 0},
		{190, 1, 0},
		{13, 1, 1},
		{61, 1, 1},
		{3, 4, 0},
		{61, 4, 0},
		{190, 4, 0},
		{61, 4, 1},
	} {
		if testing.Short() && c.batch > 100 {
			continue
		}
		e := &streamingEngine{
			now: time.Hour, random: rand.New(rand.NewPCG(3, 4)), batch: c.batch,
			spread: c.spread,
		}
		for range c.vms {
			e.limits = append(e.limits, NewPushLimits(nil))
		}
		e.run(15 * time.Minute)
		for range 2 {
			batch := float64(c.batch)
			limit, queue := e.run(15 * time.Minute)
			if limit < min(0.9*batch, batch-1) || limit > max(1.1*batch, batch+1) || queue > max(1, batch/20) {
				t.Errorf("%+v: limit %.1f, %.1f wait", c, limit, queue)
			}
		}
	}
}
