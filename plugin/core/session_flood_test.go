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

// A flood of sessions, each seen once, costs what as many requests of one session cost: nothing is kept of them, none
// takes longer than the first ones, and others stay where they are.
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
			d := startFake(t, 2, 8, `{"lb_policy":"`+c.policy+`","lb_config":{`+c.members+
				`"debug_headers":true,"health":{"slow_start":0}}}`)
			f := &sessionFlood{fakeDriver: d, inBody: c.members != "" && c.policy == "consistent_hash"}
			f.play("before", 2000)
			homes := f.homes("other")
			values, cells := len(d.metrics.values), f.shared()
			const parts = 10
			var took [parts]time.Duration
			used := f.heap()
			for i := range took {
				start := time.Now()
				f.play(strconv.Itoa(i), c.sessions/parts)
				took[i] = time.Since(start)
			}
			grown := f.heap() - used
			t.Logf("%d sessions: %v each, the last tenth %v; %d bytes of heap more, %d of shared memory", c.sessions,
				took[0]/time.Duration(c.sessions/parts), took[parts-1]/time.Duration(c.sessions/parts), grown,
				f.shared()-cells)
			if grown > 1<<20 || f.shared() > cells+64<<10 && c.policy == "consistent_hash" {
				t.Errorf("%d bytes of heap more, %d of shared memory", grown, f.shared()-cells)
			}
			// A machine with other work does not slow down tenfold for all of ten parts.
			if slowest := took[parts-1]; slowest > 3*took[0]+time.Second {
				t.Errorf("a tenth took %v at first, and %v in the end", took[0], slowest)
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
		Worker: worker, Path: "/v1/models", Headers: [][2]string{{"x-session-id", session}},
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
	for key, cell := range f.kv.cells {
		n += len(key) + len(cell.val)
	}
	return n
}

// heap returns how many bytes are in use.
func (f *sessionFlood) heap() int64 {
	clear(f.streams)
	f.access = nil
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
