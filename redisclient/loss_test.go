package redisclient_test

import (
	"errors"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// lossCap is the cap of the one endpoint when Redis loses all data.
const lossCap = 12

// newLoss is two gateways that have so many requests in flight at one endpoint, and more that wait.
func newLoss(t *testing.T, ofA, ofB int) *waitOutage {
	o := newWaitOutage(t)
	o.plan.Candidates[0].Cap = lossCap
	for range ofA {
		o.ask(o.a)
	}
	for range ofB {
		o.ask(o.b)
	}
	for range lossCap {
		o.ask(o.a)
		o.ask(o.b)
	}
	o.heartbeat()
	if o.poll(2); len(o.a.held) != ofA || len(o.b.held) != ofB {
		t.Fatalf("%d and %d in flight, want %d and %d", len(o.a.held), len(o.b.held), ofA, ofB)
	}
	return o
}

// wantAtMost checks how many requests are in flight, after the gateways have looked after them for a while.
func (o *waitOutage) wantAtMost(about string, most int) {
	o.t.Helper()
	for range 4 {
		if o.poll(4); len(o.a.held)+len(o.b.held) > most {
			o.t.Fatalf("%s: %d and %d in flight, want %d at most", about, len(o.a.held), len(o.b.held), most)
		}
	}
}

// lose has Redis lose all data but the clock of the test.
func (o *waitOutage) lose() {
	o.a.conn.value("FLUSHALL")
	o.b.conn.setClock(o.clock, 0)
}

// serve has everything served, with no more in flight than the cap once what is beyond it has ended.
func (o *waitOutage) serve() {
	o.t.Helper()
	for range 20 * lossCap {
		before := len(o.a.held) + len(o.b.held)
		for _, g := range []*gateway{o.a, o.b} {
			for id := range g.held {
				o.release(g, id)
				break
			}
		}
		if o.poll(2); len(o.a.held)+len(o.b.held) > max(lossCap, before-1) {
			o.t.Fatalf("%d and %d in flight, %d before", len(o.a.held), len(o.b.held), before)
		}
		if before == 0 {
			break
		}
	}
	for id, calls := range o.ended {
		if calls != 1 {
			o.t.Errorf("request %d was answered %d times", id, calls)
		}
	}
	if len(o.ended) != int(o.id) {
		o.t.Errorf("%d of %d requests were served", len(o.ended), o.id)
	}
	o.heartbeat()
	o.audit()
}

// After a loss of all data each gateway has its own requests counted again before it asks for more. So no more are
// granted beyond the cap than the gateways that have not asked by then have in flight.
func TestCapsAfterALoss(t *testing.T) {
	for _, c := range [][2]int{{6, 6}, {12, 0}, {0, 12}, {9, 3}} {
		o := newLoss(t, c[0], c[1])
		o.lose()
		o.wantAtMost("at the next poll", lossCap+c[1]) // the first gateway is the first one to ask
		o.heartbeat()
		o.wantAtMost("after a heartbeat", lossCap+c[1])
		o.heartbeat()
		o.audit()
		o.serve()
	}
}

// So it is without a queue, when the next request notices.
func TestCapsAfterALossWithoutAQueue(t *testing.T) {
	for _, c := range [][2]int{{6, 6}, {12, 0}, {0, 12}} {
		o := newOutage(t)
		o.plan.Candidates = o.plan.Candidates[:1]
		o.plan.Candidates[0].Cap = lossCap
		fill := func(g *gateway, most int) {
			for len(g.held) < most {
				if err := o.next(g); errors.Is(err, lb.ErrFull) {
					return
				} else if err != nil {
					t.Fatal(err)
				}
			}
		}
		fill(o.a, c[0])
		fill(o.b, c[1])
		o.heartbeat()
		o.a.conn.value("FLUSHALL")
		fill(o.a, 3*lossCap)
		fill(o.b, 3*lossCap)
		if n := len(o.a.held) + len(o.b.held); n > lossCap+c[1] {
			t.Errorf("%v: %d in flight, want %d at most", c, n, lossCap+c[1])
		}
		o.heartbeat()
		o.audit()
	}
}

// While Redis does not answer, a gateway grants up to its part of the cap. When it reaches Redis again, and finds it
// empty, it has its own requests counted before those that wait ask.
func TestCapsThroughAnOutage(t *testing.T) {
	const part = lossCap / 2
	for _, c := range [][2]int{{6, 6}, {12, 0}, {0, 12}, {9, 3}} {
		o := newLoss(t, c[0], c[1])
		o.lose()
		o.a.conn.fate = func([]byte) int { return notSent }
		o.b.conn.fate = o.a.conn.fate
		for range 3 {
			o.heartbeat()
			o.wantAtMost("while Redis does not answer", max(c[0], part)+max(c[1], part))
		}
		if o.a.store.Ready(o.now) || o.b.store.Ready(o.now) {
			t.Fatal("both should know that Redis does not answer")
		}
		most := lossCap + len(o.b.held)
		for _, g := range []*gateway{o.a, o.b} {
			g.conn.fate = nil
			o.now += time.Second
			if err := g.Heartbeat(o.now); err != nil {
				t.Fatal(err)
			}
			o.wantAtMost("when it reaches Redis again", most)
		}
		o.serve()
	}
}
