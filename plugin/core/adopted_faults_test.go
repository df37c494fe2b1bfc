package core

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/region"
)

// Servers that become unhealthy while requests wait for them, or are chosen, lose none: what waits goes home.
func TestAdoptedServersFail(t *testing.T) {
	for _, redis := range []bool{false, true} {
		var us *fakeDriver
		if redis {
			us = startAdoptingWithRedis(t, 1)
		} else {
			us, _ = startAdopting(t, 1, 1, "")
		}
		home := us.client(0, regionChat)
		us.advance(50 * time.Millisecond)
		a := us.client(0, regionChat)
		us.advance(50 * time.Millisecond)
		a.wantAt(true)
		// As if another gateway had taken the room that this one counts on.
		if err := us.workers[1].home().Board.See(us.now, 0, region.State{Open: 1}); err != nil {
			t.Fatal(err)
		}
		b := us.client(1, regionChat)
		us.advance(20 * time.Millisecond)
		us.wantWaiting(b)
		us.endpoints[us.sites[euServers][0]].State = lb.Unhealthy
		us.advance(time.Second)
		if home.Finish(); b.Held() {
			us.advance(time.Second)
		}
		b.wantAt(false)
		b.Finish()
		a.Finish()
		us.advance(2 * time.Second)
		us.emptiedInside()
		us.wantNoneWaits()
	}
}

// When a region dies with its servers, which look healthy until they are checked, no request is sent to them. Servers
// that live get some.
func TestNothingGoesToServersThatDieWithTheirGateways(t *testing.T) {
	for _, alive := range []bool{false, true} {
		change := adopting(1)
		us, eu := newRegions(t, 1, 1, "", func(d *fakeDriver, config string) string {
			return strings.Replace(change(d, config), `"gone":"1s",`, "", 1)
		})
		pass(time.Second, us, eu)
		home := us.client(0, regionChat)
		us.peers = nil
		var waits *fakeStream
		for second := range 15 {
			if second == 7 && !alive {
				us.endpoints[us.sites[euServers][0]].State = lb.Unhealthy
			}
			waits = us.client(second%2, regionChat)
			us.advance(time.Second)
			if waits.cluster == euServers && (!alive || second < 7) {
				t.Fatalf("after %d s a request is sent there: %v", second, alive)
			}
			if second < 14 {
				waits.ResetByClient()
			}
		}
		if alive {
			waits.wantAt(true)
		} else {
			us.wantWaiting(waits)
			home.Finish()
			us.advance(time.Second)
			waits.wantAt(false)
		}
		waits.Finish()
		if !home.Ended {
			home.Finish()
		}
		us.emptiedInside()
	}
}

// However many requests wait at home, no more go to adopted servers than are open, by what Redis has told a while ago.
func TestManyWaitForAdoptedWithRedis(t *testing.T) {
	us := startAdoptingWithRedis(t, 2)
	there := []*fakeStream{us.client(0, regionChat)} // at home, and then at each of the others
	for range 2 {
		us.advance(50 * time.Millisecond)
		there = append(there, us.client(0, regionChat))
	}
	var waits []*fakeStream
	for i := range 30 {
		us.advance(10 * time.Millisecond)
		waits = append(waits, us.client(i%2, regionChat))
	}
	us.advance(time.Second)
	us.wantWaiting(waits...)
	for round := range 3 {
		for _, c := range there[1:] {
			c.wantAt(true)
			c.Finish()
		}
		us.advance(2 * time.Second)
		there = there[:1]
		for _, c := range waits {
			if c.cluster == euServers && !c.Ended {
				there = append(there, c)
			}
		}
		if len(there) != 3 {
			t.Fatalf("round %d: %d requests were sent where two had room", round, len(there)-1)
		}
	}
	for _, c := range append(waits, there[0]) {
		if !c.Ended {
			c.ResetByClient()
		}
	}
	us.advance(2 * time.Second)
	us.emptiedInside()
	us.wantNoneWaits()
}

// startWaitingThere returns a region that has adopted a server, with so many requests that wait for that, as if it had
// been open, and one at home, which is full by that.
func startWaitingThere(t *testing.T, n int) (us *fakeDriver, home, there *fakeStream, waits []*fakeStream) {
	t.Helper()
	us = startAdoptingWithRedis(t, 1)
	home = us.client(0, regionChat)
	us.advance(50 * time.Millisecond)
	there = us.client(0, regionChat)
	us.advance(50 * time.Millisecond)
	there.wantAt(true)
	for i := range n {
		c := us.client(i%2, regionChat)
		for range 100 {
			if c.cluster == euServers {
				break
			}
			us.forgetServers()
			us.advance(3 * time.Millisecond)
		}
		if us.wantWaiting(c); c.cluster != euServers {
			t.Fatalf("request %d waits for %q", i, c.cluster)
		}
		waits = append(waits, c)
	}
	return us, home, there, waits
}

// forgetServers has Redis not have told yet that the adopted servers are full.
func (d *fakeDriver) forgetServers() {
	for _, w := range d.workers {
		h := w.home()
		clear(h.Loads)
		if err := h.Board.See(d.now, 0, region.State{Open: 9}); err != nil {
			d.t.Fatal(err)
		}
	}
}

// What waits for adopted servers that fail waits at home, for as long as it may: no more are sent there than are open.
func TestWaitsAtHomeWhenAdoptedServersFail(t *testing.T) {
	us, home, there, waits := startWaitingThere(t, 6)
	us.endpoints[us.sites[euServers][0]].State = lb.Unhealthy
	us.advance(3 * time.Second)
	us.wantWaiting(waits...)
	there.ResetByUpstream()
	for i := range waits {
		if home.Finish(); i == 4 {
			break // the rest have waited for too long
		}
		us.advance(time.Second)
		home = nil
		for _, c := range waits {
			if c.Ended || c.Held() {
				continue
			}
			if home != nil {
				t.Fatalf("several requests are at home, where one has room")
			}
			c.wantAt(false)
			home = c
		}
		if home == nil {
			t.Fatalf("no request is at home, where one has room")
		}
	}
	us.advance(10 * time.Second)
	got := map[int]int{}
	for _, c := range waits {
		if !c.Ended {
			c.Finish()
		}
		got[c.Result().Status]++
	}
	if got[200] != 5 || got[429]+got[503] != 1 {
		t.Errorf("they got %v", got)
	}
	us.advance(2 * time.Second)
	us.emptiedInside()
	us.wantNoneWaits()
}

// Whichever call panics while a request comes back from adopted servers, it is served and counted once.
func TestPanicOnTheWayBackFromAdopted(t *testing.T) {
	for _, call := range []string{"View", "KnownView", "SetCluster", "RemoveRequestHeader"} {
		fired := true
		for n := 1; n < 30 && fired; n += 4 {
			us, home, there, waits := startWaitingThere(t, 1)
			us.endpoints[us.sites[euServers][0]].State = lb.Unhealthy
			us.fault, us.faultLeft = call, n
			us.advance(600 * time.Millisecond)
			fired, us.fault = us.faultLeft <= 0, ""
			if n == 1 && !fired {
				t.Errorf("%s was not there to panic", call)
			}
			home.Finish()
			there.ResetByUpstream()
			us.advance(4 * time.Second)
			if waits[0].Finish(); waits[0].Result().Status != 200 || waits[0].Upstream() < 0 {
				t.Errorf("%s %d: %+v", call, n, waits[0].Result())
			}
			us.advance(2 * time.Second)
			us.emptiedInside()
			us.wantNoneWaits()
			sum := uint64(0)
			for _, n := range us.metrics.decisions() {
				sum += n
			}
			if sum != 4 {
				t.Errorf("%s %d: four requests were counted as %v", call, n, us.metrics.decisions())
			}
		}
	}
}

// A client that leaves a request at an adopted server, or one that waits for it, leaves nothing behind.
func TestAdoptedClientLeaves(t *testing.T) {
	us, _ := startAdopting(t, 1, 1, "")
	home, a := us.client(0, regionChat), us.client(1, regionChat)
	a.wantAt(true)
	waits := us.client(1, regionChat)
	us.wantWaiting(waits)
	a.ResetByClient()
	waits.ResetByClient()
	home.Finish()
	us.advance(time.Second)
	us.emptiedInside()
	us.wantNoneWaits()
}

// Whichever call panics while a request goes to an adopted server, it is served and counted once, and nothing of it
// remains.
func TestPanicAnywhereWithAdopted(t *testing.T) {
	calls := []string{
		"Now", "View", "KnownView", "Tick", "Cluster", "SetCluster", "RequestHeaders", "RemoveRequestHeader",
		"RequestBody", "Steer", "Unsteer", "ServedBy", "Random", "ResponseHeader", "SetResponseHeader", "SetNote",
		"Resume", "Probe",
	}
	fired := map[string]int{}
	for _, waits := range []bool{false, true} {
		for _, call := range calls {
			for n := 1; n < 60; n++ {
				more := false
				t.Run(fmt.Sprintf("%v/%s/%d", waits, call, n), func(t *testing.T) {
					more = panicWithAdopted(t, waits, call, n)
				})
				if !more {
					break
				}
				fired[call]++
			}
		}
	}
	for _, call := range []string{"View", "KnownView", "Steer", "SetCluster", "SetNote", "Random", "Resume"} {
		if fired[call] == 0 {
			t.Errorf("%s was not there to panic: %v", call, fired)
		}
	}
}

func panicWithAdopted(t *testing.T, waits bool, call string, n int) (fired bool) {
	us, _ := startAdopting(t, 1, 1, "")
	home := us.client(0, regionChat)
	var there *fakeStream
	if waits {
		there = us.client(1, regionChat)
		there.wantAt(true)
	}
	us.fault, us.faultLeft = call, n
	c := us.client(0, regionChat)
	us.advance(300 * time.Millisecond)
	if waits {
		there.Finish()
	}
	us.advance(time.Second)
	if c.Held() || c.Upstream() < 0 {
		t.Fatalf("held %v, at endpoint %d", c.Held(), c.Upstream())
	}
	c.Finish()
	fired = us.faultLeft <= 0
	us.fault = ""
	home.Finish()
	if c.Result().Status != 200 || !c.Received().Ended {
		t.Errorf("the client got %+v", c.Result())
	}
	us.advance(2 * time.Second)
	us.emptiedInside()
	us.wantNoneWaits()
	sum, want := uint64(0), uint64(2)
	for _, n := range us.metrics.decisions() {
		sum += n
	}
	if waits {
		want = 3
	}
	if sum != want {
		t.Errorf("%d requests were counted as %v", want, us.metrics.decisions())
	}
	return fired
}

// What waits for adopted servers is there already: while it waits nobody tries to send it on.
func TestWhatWaitsThereIsNotSentOn(t *testing.T) {
	us, _, _, waits := startWaitingThere(t, 2)
	for i, w := range us.workers {
		if n := w.triesToForward(); n != 0 {
			t.Errorf("worker %d tried %d times", i, n)
		}
	}
	us.wantWaiting(waits...)
}
