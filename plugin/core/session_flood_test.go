package core

import (
	"fmt"
	"maps"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
)

// A flood of sessions, each seen once, costs what as many requests of one session cost: nothing is kept of them, the
// last ones need no more allocations than the first ones, and others stay where they are.
func TestFloodOfSessions(t *testing.T) {
	for name, c := range map[string]struct {
		policy, members string
		sessions        int
	}{
		"consistent_hash":              {"consistent_hash", ``, 1_000_000},
		"prefix_cache, equal costs":    {"prefix_cache", `"session_affinity":true,`, 100_000},
		"consistent_hash, in the body": {"consistent_hash", `"session":{"key":["body:user"]},`, 100_000},
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() {
				c.sessions = 50_000
			}
			d := startFake(t, 2, 8, `{"lb_policy":"`+c.policy+`","lb_config":{`+c.members+
				`"debug_headers":true,"health":{"slow_start":0}}}`)
			f := &sessionFlood{fakeDriver: d, inBody: c.members != "" && c.policy == "consistent_hash"}
			f.play("before", 2000)
			homes := f.homes("other")
			values, cells := len(d.metrics.values), f.shared()
			const parts = 10
			var allocations [parts]uint64
			used := f.heap()
			for i := range allocations {
				before := mallocs()
				f.play(strconv.Itoa(i), c.sessions/parts)
				allocations[i] = mallocs() - before
			}
			grown := f.heap() - used
			first, last := allocations[0], allocations[parts-1]
			t.Logf("%d sessions: %d allocations for the first tenth, %d for the last one; %d bytes of heap more, "+
				"%d of shared memory", c.sessions, first, last, grown, f.shared()-cells)
			if grown > 1<<20 || f.shared() > cells+64<<10 && c.policy == "consistent_hash" {
				t.Errorf("%d bytes of heap more, %d of shared memory", grown, f.shared()-cells)
			}
			if last > first+first/50 {
				t.Errorf("a tenth took %d allocations at first, and %d in the end", first, last)
			}
			if now := f.homes("other"); !maps.Equal(now, homes) {
				t.Error("sessions that took no part have moved")
			}
			if n := len(d.metrics.values); n > values+2 {
				t.Errorf("%d statistics more", n-values)
			}
			d.advance(2 * time.Second)
			d.drained()
		})
	}
}

// sessionFlood sends requests of many sessions.
type sessionFlood struct {
	*fakeDriver
	inBody bool
}

// request is one of the session.
func (f *sessionFlood) request(session string, worker int) streamtest.Request {
	if f.inBody {
		return streamtest.Request{Worker: worker, Frames: []string{`{"user":"` + session + `"}`}}
	}
	return streamtest.Request{
		Worker: worker, Headers: [][2]string{{"x-session-id", session}},
	}
}

// serve sends a request of the session and returns where it was served.
func (f *sessionFlood) serve(session string, worker int) int {
	s := f.client(worker, f.request(session, worker).Filled())
	at := s.Upstream()
	s.Head(200)
	s.Finish()
	return at
}

// play has so many sessions send one request each.
func (f *sessionFlood) play(name string, sessions int) {
	for i := range sessions {
		f.serve(fmt.Sprintf("flood %s %d", name, i), i%2)
		if i%1000 == 999 {
			f.advance(100 * time.Millisecond)
			clear(f.streams) // all have ended
			f.access = nil
			f.metrics.Forget()
		}
	}
}

// homes returns where each of many sessions is served.
func (f *sessionFlood) homes(name string) map[int]int {
	at := map[int]int{}
	for i := range 1000 {
		at[i] = f.serve(fmt.Sprintf("%s %d", name, i), i%2)
	}
	return at
}

// shared returns how many bytes are in shared memory.
func (f *sessionFlood) shared() (n int) {
	for key, cell := range f.kv.Cells {
		n += len(key) + len(cell.Val)
	}
	return n
}

// heap returns how many bytes are in use.
func (f *sessionFlood) heap() int64 {
	clear(f.streams)
	f.access = nil
	f.metrics.Forget()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// mallocs returns how many allocations there have been.
func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}
