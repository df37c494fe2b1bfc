package regions

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/loadgen"
	lbregion "github.com/warmgate/warmgate/lb/region"
	"github.com/warmgate/warmgate/lb/storetest"
)

// A gateway that is told the truth forwards to the region, and to one that lies it does not.
func TestLies(t *testing.T) {
	own := lie{"signed here", func(_ *liar, p *lbregion.Route, now time.Duration) string {
		return seal(values(p, now).Uvarint(1).Uvarint(0).Uvarint(0).Uvarint(0))
	}}
	for _, next := range append([]lie{truth, own}, lies...) {
		l := &liar{key: lbregion.NewKey(regionSecret)}
		board := lbregion.NewBoard(storetest.NewMemory(), "board", lbregion.Config{
			Name: "us", Peers: []lbregion.Peer{{Name: liarName}}, Interval: time.Second, Gone: time.Hour,
		})
		key := lbregion.NewKey(regionSecret)
		prober := lbregion.NewProber(board, lbregion.Keys{Key: key}, 1)
		refused, now, start := 0, time.Duration(0), wall()
		for n := range uint64(3) {
			now = time.Duration(n+1) * 2 * time.Second // what was not answered is missed by then
			if err := prober.Tick(now); err != nil {
				t.Fatal(err)
			}
			clock := start + now
			texts, err := prober.Ask(now, clock, 0)
			if err != nil {
				t.Fatal(err)
			}
			probe, err := l.key.ReadProbe(texts.Text, liarName, clock)
			if err != nil {
				t.Fatal(err)
			}
			if prober.Hear(now, clock, 0, next.answer(l, &probe, clock)) != nil {
				refused++
			}
		}
		peer, _ := board.Forward(now, &lbregion.Request{Session: 1})
		believed, genuine := peer != lbregion.None, next.name == truth.name || next.name == own.name
		if believed != genuine || believed != (refused == 0) {
			t.Errorf("%s: %d of 3 answers were refused, forwarded: %t", next.name, refused, believed)
		}
	}
}

// Nothing that clients pass for a hop is one; what it is made of would be.
func TestForgeries(t *testing.T) {
	key := lbregion.NewKey(regionSecret)
	const subject = "GET /v1/models"
	if hop := key.ReadHop(key.SignHop("eu", "us", wall(), subject), "us", wall(), subject); !hop.Forwarded() {
		t.Errorf("a genuine one: %v", hop.Forged)
	}
	for i, text := range forgeries("us") {
		if hop := key.ReadHop(text, "us", wall(), subject); hop.Forwarded() || hop.Forged == nil {
			t.Errorf("number %d: %+v", i, hop)
		}
	}
}

// A fault excuses what it can have cost: an answer that the region had begun, whose way was cut, while that lasts.
func TestExcusesOfRegions(t *testing.T) {
	us, eu, w := &region{name: "us"}, &region{name: "eu"}, new(world)
	sent := time.Now()
	sample := func(failure, reason, at string) *loadgen.Sample {
		return &loadgen.Sample{
			Error: failure, Header: http.Header{"X-Warmgate-Reason": {reason}, "X-Warmgate-Region": {at}},
		}
	}
	cut := sample(loadgen.ErrTruncated, "forwarded", "eu")
	check := func(about string, of *region, s *loadgen.Sample, want bool) {
		t.Helper()
		if w.excused(of)(s, sent) != want {
			t.Errorf("%s: excused is %t", about, !want)
		}
	}
	check("nothing is broken", us, cut, false)
	over := w.mayBreak(us, eu)
	check("cut off", us, cut, true)
	check("of another region's client", eu, cut, false)
	check("not begun", us, sample(loadgen.ErrReset, "forwarded", "eu"), false)
	check("begun elsewhere", us, sample(loadgen.ErrTruncated, "forwarded", "ap"), false)
	check("at adopted servers", us, sample(loadgen.ErrTruncated, "adopted", "eu"), false)
	check("at home", us, sample(loadgen.ErrTruncated, "chosen", ""), false)
	over()
	check("cut off later", us, cut, true)
	sent = time.Now().Add(time.Millisecond)
	check("sent later", us, cut, false)
	back := w.mayFail(eu)
	check("without a gateway", eu, sample(loadgen.ErrConnect, "", ""), true)
	check("with one", us, sample(loadgen.ErrConnect, "", ""), false)
	back()
	sent = time.Now().Add(time.Millisecond)
	check("with one again", eu, sample(loadgen.ErrConnect, "", ""), false)
}

// Hops at a server count by who has signed them.
func TestWatchHops(t *testing.T) {
	us, key := &region{name: "us"}, lbregion.NewKey(regionSecret)
	const path = "/v1/models?a=b"
	for _, hop := range []string{
		key.SignHop("us", "eu", wall(), "GET "+path), key.SignHop("eu", "us", wall(), "GET "+path),
		key.SignHop("us", "eu", wall(), "GET /v1/models"), "forged", "",
	} {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		if hop != "" {
			r.Header.Set(hopHeader, hop)
		}
		us.sees(r)()
	}
	if own, others := us.ownHops.Load(), us.otherHops.Load(); own != 1 || others != 3 {
		t.Errorf("%d hops of its own and %d others, want 1 and 3", own, others)
	}
}
