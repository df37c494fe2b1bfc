package vllmsim

import (
	"slices"
	"testing"
	"time"
)

// submit submits a request of a few tokens for an adapter.
func (l *lab) submit(adapter string, answer int) *sequence {
	l.t.Helper()
	q := newSequence(prompt(adapter+"x", 2), 0, 1, answer, finishLength)
	q.adapter = adapter
	if err := l.add(q, l.now); err != nil {
		l.t.Fatal(err)
	}
	return q
}

// batchOf lists the adapters of the batch, sequence by sequence.
func (l *lab) batchOf() []string {
	var names []string
	for _, q := range l.scheduler.running {
		names = append(names, q.adapter)
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
	l.step()
	if got := l.batchOf(); !slices.Equal(got, []string{"a", "b", "b", ""}) {
		t.Fatalf("the batch is %q", got)
	}
	if l.queued() != 1 || l.shown.deferred != 1 || l.shown.waiting != 1 {
		t.Errorf("%d queued, shown %+v, want one that is deferred", l.queued(), l.shown)
	}
	l.step()
	l.step() // a ends
	l.step()
	if third.state != seqRunning || l.queued() != 0 || l.shown.deferred != 0 {
		t.Errorf("state %d with %d queued, %+v, want it to run in a's place", third.state, l.queued(), l.shown)
	}
	l.drain()
	if l.stats.queuedRequests != 1 {
		t.Errorf("%d requests queued, want 1", l.stats.queuedRequests)
	}
}

func TestAdaptersAreLoadedOnce(t *testing.T) {
	l := newLab(t, Config{MaxNumSeqs: 1, MaxLoras: 2})
	l.tuning.AdapterLoadMS = 100
	for _, c := range []struct {
		adapter string
		loads   int
	}{{"", 0}, {"a", 1}, {"a", 0}, {"b", 1}, {"", 0}, {"a", 0}, {"c", 1}, {"a", 0}, {"b", 1}} {
		before := l.now
		l.submit(c.adapter, 1)
		if st := l.step(); st.loads != c.loads {
			t.Errorf("%q: %d adapters loaded, want %d; loaded %q", c.adapter, st.loads, c.loads, l.adapters.loaded)
		}
		if took, least := l.now-before, time.Duration(c.loads)*100*time.Millisecond; took < least ||
			took > least+50*time.Millisecond {
			t.Errorf("%q: the step took %v, want %v and its prefill", c.adapter, took, least)
		}
	}
	if l.stats.adapterLoads != 4 {
		t.Errorf("%d loads counted, want 4", l.stats.adapterLoads)
	}
}

// TestAdapterInfo checks vllm:lora_requests_info: it has every combination so far, and the newest by its value.
func TestAdapterInfo(t *testing.T) {
	l := newLab(t, Config{MaxNumSeqs: 1, MaxLoras: 1})
	now := func() string {
		newest := slices.MaxFunc(l.adapters.infos, func(a, b adapterInfo) int { return int(a.at - b.at) })
		return newest.names
	}
	b := l.submit("b", 3)
	l.submit("a", 2)
	l.submit("b", 2)
	if l.step(); now() != "b" {
		t.Errorf("newest %q, want the one that runs, not the one that waits", now())
	}
	l.abort(b, l.now)
	if l.step(); now() != "a" {
		t.Errorf("newest %q after the first has left, want the next", now())
	}
	l.drain()
	if now() != "" {
		t.Errorf("newest %q at the end, want none", now())
	}
	if got := l.adapters.infos; len(got) != 3 {
		t.Errorf("%v, want three combinations", got)
	}
	if samples := l.adapters.samples(time.Unix(1000, 0)); !slices.ContainsFunc(samples, func(s sample) bool {
		return s.labels == `max_lora="1",running_lora_adapters="b",waiting_lora_adapters="b"` && s.value >= 1000
	}) {
		t.Errorf("samples %+v", samples)
	}
	plain := newLab(t, Config{})
	plain.submit("", 2)
	plain.drain()
	if len(plain.adapters.infos) != 0 {
		t.Errorf("an engine without adapters has %v", plain.adapters.infos)
	}
}

// TestRequestsQueueOnce checks that a request counts as queued once, however many steps do not serve it, and not at all
// when it only waited for the end of a step.
func TestRequestsQueueOnce(t *testing.T) {
	l := newLab(t, Config{MaxNumSeqs: 2})
	l.send(prompt("a", 4), 5)
	l.step()
	st := l.begin(l.now)
	l.send(prompt("b", 4), 5)
	l.finish(st, l.now)
	l.step()
	if l.stats.queuedRequests != 0 {
		t.Errorf("%d requests queued beside a free slot", l.stats.queuedRequests)
	}
	l.send(prompt("c", 4), 2)
	l.step()
	l.step()
	l.drain()
	if l.stats.queuedRequests != 1 {
		t.Errorf("%d requests queued, want 1", l.stats.queuedRequests)
	}
	starved := newLab(t, Config{NumBlocks: 8})
	starved.send(prompt("a", 12), 12)
	starved.send(prompt("b", 12), 12)
	starved.drain()
	if starved.stats.queuedRequests != 1 || starved.stats.preemptions == 0 {
		t.Errorf("%d requests queued in %d preemptions, want the one that was preempted", starved.stats.queuedRequests,
			starved.stats.preemptions)
	}
}
