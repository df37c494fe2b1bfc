package admission

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
)

func TestSuggestedParallelism(t *testing.T) {
	of := func(limits ...int64) (list []target) {
		for _, limit := range limits {
			list = append(list, target{limit: limit, candidate: true})
		}
		return list
	}
	busy := func(list []target, loads ...int64) []target {
		for i, n := range loads {
			list[i].load.Requests = n
		}
		return list
	}
	gone := of(10, 10)
	gone[1].candidate = false
	for name, c := range map[string]struct {
		targets []target
		score   float64
		want    int64 // -1: not known
	}{
		"idle":              {of(20, 10), 0, 30},
		"half":              {busy(of(20, 10), 10, 5), 0.5, 23},
		"full pressure":     {busy(of(20, 10), 10, 5), 1, 15},
		"four at least":     {busy(of(20, 10), 1), 1, 4},
		"caps below four":   {of(1, 2), 1, 3},
		"above a new cap":   {busy(of(5, 5), 20, 0), 0, 10},
		"one without a cap": {of(20, 0), 0, -1},
		"one is unhealthy":  {busy(gone, 5, 5), 0, 15},
	} {
		got, known := suggested(c.targets, c.score)
		if known != (c.want >= 0) || known && got != c.want {
			t.Errorf("%s: %d, known %v, want %d", name, got, known, c.want)
		}
	}
}

// What several VMs have counted is the same as if one had, in whatever order it comes together, and after it was in
// shared memory.
func TestPressureOfSeveralVMs(t *testing.T) {
	var one Pressure
	var parts [3]Pressure
	now := time.Hour
	for i := range 300 {
		now += time.Duration(i*7919%900) * time.Millisecond
		wait, admitted := time.Duration(i*7907%1200)*time.Millisecond, i%3 > 0
		one.addCall(now, wait, admitted)
		parts[i%3].addCall(now, wait, admitted)
	}
	for _, order := range [][3]int{{0, 1, 2}, {2, 1, 0}, {1, 0, 2}} {
		var all Pressure
		for _, i := range order {
			sent := parts[i]
			all = ReadPressure(all.pack())
			all.merge(&sent)
		}
		for _, later := range []time.Duration{0, 25 * time.Second, 55 * time.Second, time.Minute} {
			if got, want := all.Share(now+later), one.Share(now+later); got != want {
				t.Errorf("%v later: %v, want %v", later, got, want)
			}
		}
	}
	if one.Share(now) == 0 {
		t.Error("no pressure")
	}
	packed := one.pack()
	for _, raw := range [][]byte{nil, packed[1:], append(packed, 0), {1}} {
		if ReadPressure(raw) != (Pressure{}) {
			t.Errorf("%d bytes are read", len(raw))
		}
	}
}

// The value in shared memory is byte for byte as documented: VMs with another version of the plugin read it.
func TestFormatsOfPressure(t *testing.T) {
	p := Pressure{{
		period: 0x1112131415161718, requests: 1, refused: 2, waits: [waitSteps + 2]uint32{3, waitSteps + 1: 4},
	}}
	want := "\x18\x17\x16\x15\x14\x13\x12\x11" + "\x01\x00\x00\x00\x02\x00\x00\x00\x03\x00\x00\x00" +
		strings.Repeat("\x00", 4*waitSteps) + "\x04\x00\x00\x00" + strings.Repeat("\x00", 5*pressureBytes/6)
	if got := string(p.pack()); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestFormatsOfLimits(t *testing.T) {
	const at = 0x1112131415161718
	list := []lb.Override{{Target: 0x2122232425262728, Set: lb.TargetLimits{-1, 0.5, 0}}}
	want := "\x18\x17\x16\x15\x14\x13\x12\x11" + "\x28\x27\x26\x25\x24\x23\x22\x21" +
		"\x00\x00\x00\x00\x00\x00\xf0\xbf" + "\x00\x00\x00\x00\x00\x00\xe0\x3f" + strings.Repeat("\x00", 4*8)
	raw := packShared(at, list)
	if string(raw) != want {
		t.Errorf("got %q, want %q", raw, want)
	}
	for _, c := range []struct {
		raw  string
		at   time.Duration
		list []lb.Override
	}{
		{want, at, list},
		{want[:8], at, nil},
		{want[:7], 0, nil},
		{"\x00", 0, nil},
		{"", 0, nil},
	} {
		if got, list := readShared([]byte(c.raw)); got != c.at || !slices.Equal(list, c.list) {
			t.Errorf("%q: got %d, %+v; want %d, %+v", c.raw, got, list, c.at, c.list)
		}
	}
}
