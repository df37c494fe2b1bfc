package core

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/plugin/admission"
	"github.com/warmgate/warmgate/plugin/endpoints"
	"github.com/warmgate/warmgate/plugin/stats"
)

func TestPressure(t *testing.T) {
	for _, c := range []struct {
		waits   []time.Duration
		refused int
		want    float64
	}{
		{nil, 0, 0},
		{nil, 5, 0.5},
		{[]time.Duration{0, 0, 0}, 0, 0},
		{[]time.Duration{25 * time.Millisecond}, 0, 0},
		{[]time.Duration{time.Second}, 0, 0.5},
		{[]time.Duration{time.Minute}, 0, 0.5},
		{[]time.Duration{512 * time.Millisecond}, 0, 0.25},
		{[]time.Duration{time.Minute}, 1, 0.75},
		{append(make([]time.Duration, 96), time.Minute), 0, 0},
		{append(make([]time.Duration, 9), time.Minute), 0, 0.5},
	} {
		var p admission.Pressure
		for _, w := range c.waits {
			p.Add(time.Hour, w, false)
		}
		for range c.refused {
			p.Add(time.Hour, 0, true)
		}
		for _, after := range []time.Duration{0, 50 * time.Second} {
			if got := p.Share(time.Hour + after); math.Abs(got-c.want) > 0.02 {
				t.Errorf("waits %v, %d refused, %v later: %v, want %v", c.waits, c.refused, after, got, c.want)
			}
		}
		if got := p.Share(time.Hour + time.Minute); got != 0 {
			t.Errorf("waits %v, %d refused, a minute later: %v", c.waits, c.refused, got)
		}
	}
}

func TestQueueStatistics(t *testing.T) {
	const labels = ";cluster=" + fakeCluster
	d, busy := startQueue(t, 2, 2, queueConfig(twoClasses))
	d.advance(2 * time.Second)
	if n := d.metrics.values[stats.Parallelism+labels]; n != 2 {
		t.Errorf("suggested are %d requests in flight, want 2", n)
	}
	waiting := []*fakeStream{
		d.client(0, inClass("batch")), d.client(1, inClass("batch")), d.client(1, inClass("interactive")),
	}
	d.advance(2 * time.Second)
	for class, want := range map[string]uint64{"batch": 2, "interactive": 1} {
		if n := d.metrics.values[stats.Queue+labels+";class="+class]; n != want {
			t.Errorf("%d of class %s wait, want %d", n, class, want)
		}
	}
	busy[0].Finish()
	busy[1].Finish()
	d.advance(time.Second)
	for _, c := range waiting {
		if c.Upstream() >= 0 {
			c.Finish()
		}
	}
	d.advance(time.Second)
	for _, c := range waiting {
		if !c.Ended {
			c.Finish()
		}
	}
	for class, want := range map[string]uint64{"batch": 3, "interactive": 2} {
		if ms := d.metrics.values[stats.QueueWait+labels+";class="+class]; ms/1000 != want {
			t.Errorf("the last of class %s waited for %d ms", class, ms)
		}
	}
	d.advance(2 * time.Second)
	if n := d.metrics.values[stats.Pressure+labels]; n != 50 {
		t.Errorf("backpressure %d %%, want 50", n)
	}
	if n := d.metrics.values[stats.Parallelism+labels]; n != 1 {
		t.Errorf("suggested are %d requests in flight, want half of 2", n)
	}
	d.advance(endpoints.ClusterAge + 2*time.Second)
	for name, n := range d.metrics.values {
		if d.metrics.kinds[name] == "gauge" && strings.Contains(name, labels) && n != 0 {
			t.Errorf("%s is %d after the cluster was forgotten", name, n)
		}
	}
	d.drained()
}

// Rules of one cluster may have classes of their own: all of them have a gauge, until no queue is configured any more.
func TestClassesOfAllConfigurations(t *testing.T) {
	gauge := func(class string) string { return stats.Queue + ";cluster=" + fakeCluster + ";class=" + class }
	d, busy := startQueue(t, 1, 1, queueConfig(twoClasses))
	first := d.client(0, inClass("batch"))
	if !d.configure(queueConfig(`"classes":{"batch":1,"chat":2},"class_header":"x-class"`)) {
		t.Fatal("refused")
	}
	second := d.client(0, inClass("chat"))
	d.wantWaiting(first, second)
	d.advance(2 * time.Second)
	for class, want := range map[string]uint64{"batch": 1, "chat": 1} {
		if n := d.metrics.values[gauge(class)]; n != want {
			t.Errorf("%d of class %s wait, want %d", n, class, want)
		}
	}
	if !d.configure(requestsConfig) {
		t.Fatal("refused")
	}
	for _, c := range []*fakeStream{busy[0], first, second} {
		c.ResetByClient()
	}
	d.advance(3 * time.Second)
	for _, class := range []string{"interactive", "batch", "chat"} {
		if n := d.metrics.values[gauge(class)]; n != 0 {
			t.Errorf("%d of class %s wait after the queue has gone", n, class)
		}
	}
	if cl := d.workers[0].vm.Clusters[fakeCluster]; cl.Queue.Config != nil {
		t.Error("the cluster keeps a configuration that is not in force")
	}
}

// The access log has the class and the wait of every request where a queue is configured, and nothing else has.
func TestWaitInTheAccessLog(t *testing.T) {
	d, busy := startQueue(t, 1, 1, queueConfig(""))
	c := d.client(0, streamtest.Request{})
	d.advance(1234 * time.Millisecond)
	busy[0].Finish()
	c.Finish()
	want := []string{
		"host=10.0.0.1:8000 reason=chosen load=1 class=default wait=0ms policy=global_least_request",
		"host=10.0.0.1:8000 reason=chosen load=1 class=default wait=1234ms policy=global_least_request",
	}
	if got := []string{decisionOf(d.access[0]), decisionOf(d.access[1])}; !slices.Equal(got, want) {
		t.Errorf("the access log has %q, want %q", d.access, want)
	}
	for i, rule := range []string{"cost", "turn"} {
		if !strings.Contains(d.access[i], " rule="+rule) {
			t.Errorf("the access log has %q, want the rule %s", d.access[i], rule)
		}
	}
	if !steered(want[1]) {
		t.Error("an instance behind this one does not see that the request was sent to the chosen endpoint")
	}
	if !d.configure(requestsConfig) {
		t.Fatal("refused")
	}
	d.serve(0, 200)
	if got := d.access[2]; strings.Contains(got, "class=") {
		t.Errorf("without a queue the access log has %q", got)
	}
}
