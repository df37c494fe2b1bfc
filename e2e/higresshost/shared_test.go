package higresshost

import (
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/fakehost"
	"github.com/warmgate/warmgate/plugin/process/processtest"
)

func TestSharedDataIsOneForAllWorkers(t *testing.T) {
	g := start(t, Options{Workers: 2})
	script(g, "headers: add n 2")
	if got := guestLog(g)[1]; got != "add:  (error status returned by host: not found)" {
		t.Errorf("before the key exists: %s", got)
	}
	g.Worker(1).Request("GET", "/", "", "x-script", "headers: add n 3")
	if v, _, _ := g.Shared().Get("n"); string(v) != "5" {
		t.Errorf("n = %q", v)
	}
}

// Another worker gets in between read and write: the compare-and-swap fails, except where the key was missing.
func TestCompareAndSwap(t *testing.T) {
	for _, c := range []struct {
		name, before, want, answer string
	}{
		{"existing key", "1", "11", "add:  (error status returned by host: cas mismatch)"},
		{"missing key", "", "1", "add:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := start(t, Options{Workers: 2})
			if c.before != "" {
				g.Shared().Set("n", []byte(c.before), 0)
			}
			g.OnHostCall = func(w *Worker, name string) {
				if name == "set_shared_data" && w == g.Worker(0) {
					g.OnHostCall = nil
					g.Worker(1).Request("GET", "/", "", "x-script", "headers: add n 10")
				}
			}
			script(g, "headers: add n 1")
			if v, _, _ := g.Shared().Get("n"); string(v) != c.want {
				t.Errorf("n = %q, want %q", v, c.want)
			}
			var of0 []string
			for _, e := range g.Logs(LogInfo) {
				if e.Thread == "worker 0" && strings.HasPrefix(e.Text, "add") {
					of0 = append(of0, strings.TrimSpace(e.Text))
				}
			}
			if got := of0[len(of0)-1]; got != c.answer {
				t.Errorf("answer %q, want %q", got, c.answer)
			}
		})
	}
}

func TestSharedDataZeroCasOverwrites(t *testing.T) {
	d := &processtest.KV{Cells: map[string]processtest.Cell{}}
	set := func(value string, cas uint32) bool { return d.Set("k", []byte(value), cas) == nil }
	if !set("a", 7) {
		t.Error("a missing key takes any cas")
	}
	_, cas, _ := d.Get("k")
	if set("b", cas+1) || !set("c", 0) || set("d", cas) {
		t.Error("wrong compare-and-swap")
	}
	if v, _, _ := d.Get("k"); string(v) != "c" || len(d.Cells) != 1 {
		t.Errorf("value %q", v)
	}
}

func TestMetrics(t *testing.T) {
	g := start(t, Options{Workers: 2})
	script(g, "headers: gauge g 2, count c 3, record h 7, count c 1")
	g.Worker(1).Request("GET", "/", "", "x-script", "headers: gauge g -1, record h 9")
	m := g.Metrics()
	if m.Gauge("g") != 1 || m.Counter("c") != 4 || len(m.Histogram("h")) != 2 || m.Histogram("h")[1] != 9 {
		t.Errorf("g %d, c %d, h %v", m.Gauge("g"), m.Counter("c"), m.Histogram("h"))
	}
	if got := strings.Join(m.Names(), " "); got != "c g h" {
		t.Errorf("names %s", got)
	}
	script(g, "headers: gauge g -5")
	violated(t, g, "gauge g goes below zero")
	if m.Gauge("g") != -4 || m.Counter("none") != 0 || m.Histogram("none") != nil {
		t.Errorf("g %d", m.Gauge("g"))
	}
}

func TestMetricsSurviveATrap(t *testing.T) {
	g := start(t, Options{})
	script(g, "headers: gauge g 2, panic")
	script(g, "headers: gauge g 1")
	if n := g.Metrics().Gauge("g"); n != 3 {
		t.Errorf("g = %d", n)
	}
}

func TestClockIsVirtual(t *testing.T) {
	g := start(t, Options{Now: time.UnixMilli(1_700_000_000_123)})
	script(g, "headers: now")
	g.Advance(90 * time.Second)
	script(g, "headers: now")
	if got := strings.Join(guestLog(g), "|"); !strings.Contains(got, "now: 1700000000123|") ||
		last(t, g, "now") != "1700000090123" {
		t.Errorf("the guest logged %s", got)
	}
}

func TestTicks(t *testing.T) {
	g := start(t, Options{Config: "tick=50", Workers: 2})
	g.Advance(49 * time.Millisecond)
	if g.LogContains("tick tick") {
		t.Fatal("ticked early")
	}
	g.Advance(101 * time.Millisecond)
	for _, thread := range []string{"main", "worker 0", "worker 1"} {
		if n := strings.Count(logText(g, thread), "tick tick=50"); n != 3 {
			t.Errorf("%s ticked %d times in 150 ms, want 3", thread, n)
		}
	}
	if strings.Contains(logText(g, "canary"), "tick tick") {
		t.Error("the canary must not tick")
	}
	if n := g.passed; n != 150*time.Millisecond {
		t.Errorf("clock at %v", n)
	}
}

func TestTimersRunInOrder(t *testing.T) {
	c := fakehost.NewClock(new(time.Duration))
	var got []int
	for _, ms := range []int{30, 10, 20, 10} {
		c.After(time.Duration(ms)*time.Millisecond, func() { got = append(got, ms) })
	}
	c.After(15*time.Millisecond, func() { t.Error("a stopped timer ran") }).Stop()
	c.After(10*time.Millisecond, func() { c.After(5*time.Millisecond, func() { got = append(got, 15) }) })
	c.Advance(25*time.Millisecond, func() {})
	c.Advance(5*time.Millisecond, func() {})
	want := []int{10, 10, 15, 20, 30}
	if len(got) != len(want) {
		t.Fatalf("ran %v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("ran %v, want %v", got, want)
		}
	}
}

func TestTickResumesInAnotherContext(t *testing.T) {
	g := start(t, Options{Config: "tick=50"})
	a := script(g, "headers: stop; body: buffer; end: stop, park")
	b := script(g, "headers: stop; body: buffer; end: stop, park")
	b.ResetByClient()
	g.Advance(50 * time.Millisecond)
	if !a.OnUpstream || string(a.Sent.Body) != `{"a":1}` {
		t.Errorf("not resumed: %+v", a.Sent)
	}
	if !g.LogContains("gone (error status returned by host: bad argument)") {
		t.Error("the effective context of a dead stream must be refused")
	}
}

func TestRandomnessDiffersBetweenVMsAndRepeats(t *testing.T) {
	// Go seeds its maps and math/rand from random_get; two VMs with the same bytes would share one owner id.
	a, b := start(t, Options{Seed: 1}), start(t, Options{Seed: 1})
	if a.vms != 3 || b.vms != 3 {
		t.Fatalf("%d VMs made, want canary, main, worker", a.vms)
	}
	var bytes [3][8]byte
	for i, g := range []*Gateway{a, b} {
		if _, err := g.randomness(3).Read(bytes[i][:]); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.randomness(2).Read(bytes[2][:]); err != nil {
		t.Fatal(err)
	}
	if bytes[0] != bytes[1] || bytes[0] == bytes[2] {
		t.Errorf("drawn %x", bytes)
	}
}
