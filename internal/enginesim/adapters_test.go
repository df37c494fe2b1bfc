package enginesim

import (
	"slices"
	"testing"
	"time"
)

// submit submits a request of a few tokens for an adapter.
func (l *lab) submit(adapter string, answer int) *Request {
	l.t.Helper()
	q := &Request{Prompt: prompt(adapter+"x", 2), Seed: 1, Tokens: answer}
	q.Adapter = adapter
	if err := l.Add(q, l.now); err != nil {
		l.t.Fatal(err)
	}
	return q
}

// batchOf lists the adapters of the batch, sequence by sequence.
func (l *lab) batchOf() []string {
	var names []string
	for _, q := range l.running {
		names = append(names, q.Adapter)
	}
	return names
}

func TestBatchIsFullOfAdapters(t *testing.T) {
	l := newLab(t, Config{MaxNumSeqs: 8, MaxLoras: 2})
	l.submit("a", 3)
	l.submit("b", 9)
	third := l.submit("c", 3)
	l.submit("b", 9) // passes the previous one
	l.submit("", 9)
	l.next()
	if got := l.batchOf(); !slices.Equal(got, []string{"a", "b", "b", ""}) {
		t.Fatalf("the batch is %q", got)
	}
	if l.Queued() != 1 || l.shown.Deferred != 1 || l.shown.Waiting != 1 {
		t.Errorf("%d queued, shown %+v, want one that is deferred", l.Queued(), l.shown)
	}
	l.next()
	l.next() // a ends
	l.next()
	if third.state != stateRunning || l.Queued() != 0 || l.shown.Deferred != 0 {
		t.Errorf("state %d with %d queued, %+v, want it to run in a's place", third.state, l.Queued(), l.shown)
	}
	l.drain()
	if l.stats.QueuedRequests != 1 {
		t.Errorf("%d requests queued, want 1", l.stats.QueuedRequests)
	}
}

func TestAdaptersAreLoadedOnce(t *testing.T) {
	l := newLab(t, Config{MaxNumSeqs: 1, MaxLoras: 2})
	l.times.AdapterLoadMS = 100
	for _, c := range []struct {
		adapter string
		loads   int
	}{{"", 0}, {"a", 1}, {"a", 0}, {"b", 1}, {"", 0}, {"a", 0}, {"c", 1}, {"a", 0}, {"b", 1}} {
		before := l.now
		l.submit(c.adapter, 1)
		if st := l.next(); st.loads != c.loads {
			t.Errorf("%q: %d adapters loaded, want %d; loaded %q", c.adapter, st.loads, c.loads, l.adapters.loaded)
		}
		if took, least := l.now-before, time.Duration(c.loads)*100*time.Millisecond; took < least ||
			took > least+50*time.Millisecond {
			t.Errorf("%q: the step took %v, want %v and its prefill", c.adapter, took, least)
		}
	}
	if l.stats.AdapterLoads != 4 {
		t.Errorf("%d loads counted, want 4", l.stats.AdapterLoads)
	}
}

// TestAdapterInfo checks vllm:lora_requests_info: it has every combination so far, and the newest by its value.
func TestAdapterInfo(t *testing.T) {
	l := newLab(t, Config{MaxNumSeqs: 1, MaxLoras: 1})
	now := func() string {
		newest := slices.MaxFunc(l.adapters.sets, func(a, b AdapterSet) int { return int(a.At - b.At) })
		return newest.Names
	}
	b := l.submit("b", 3)
	l.submit("a", 2)
	l.submit("b", 2)
	if l.next(); now() != "b" {
		t.Errorf("newest %q, want the one that runs, not the one that waits", now())
	}
	l.Abort(b, l.now)
	if l.next(); now() != "a" {
		t.Errorf("newest %q after the first has left, want the next", now())
	}
	l.drain()
	if now() != "" {
		t.Errorf("newest %q at the end, want none", now())
	}
	if got := l.adapters.sets; len(got) != 3 {
		t.Errorf("%v, want three combinations", got)
	}
	plain := newLab(t, Config{})
	plain.submit("", 2)
	plain.drain()
	if len(plain.adapters.sets) != 0 {
		t.Errorf("an engine without adapters has %v", plain.adapters.sets)
	}
}

// TestRequestsQueueOnce checks that a request counts as queued once, however many steps do not serve it, and not at all
// when it only waited for the end of a step.
func TestRequestsQueueOnce(t *testing.T) {
	l := newLab(t, Config{MaxNumSeqs: 2})
	l.send(prompt("a", 4), 5)
	l.next()
	l.Begin(l.now)
	l.send(prompt("b", 4), 5)
	l.Finish(l.now)
	l.next()
	if l.stats.QueuedRequests != 0 {
		t.Errorf("%d requests queued beside a free slot", l.stats.QueuedRequests)
	}
	l.send(prompt("c", 4), 2)
	l.next()
	l.next()
	l.drain()
	if l.stats.QueuedRequests != 1 {
		t.Errorf("%d requests queued, want 1", l.stats.QueuedRequests)
	}
	starved := newLab(t, Config{NumBlocks: 8})
	starved.send(prompt("a", 12), 12)
	starved.send(prompt("b", 12), 12)
	starved.drain()
	if starved.stats.QueuedRequests != 1 || starved.stats.Preemptions == 0 {
		t.Errorf("%d requests queued in %d preemptions, want the one that was preempted", starved.stats.QueuedRequests,
			starved.stats.Preemptions)
	}
}
