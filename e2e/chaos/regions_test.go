package main

import (
	"testing"
	"time"

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
		prober := lbregion.NewProber(board, key, 1)
		refused, now := 0, time.Duration(0)
		for n := range uint64(3) {
			now = time.Duration(n+1) * 2 * time.Second // what was not answered is missed by then
			if err := prober.Tick(now); err != nil {
				t.Fatal(err)
			}
			text, err := prober.Ask(now, wall(), 0)
			if err != nil {
				t.Fatal(err)
			}
			probe, err := l.key.ReadProbe(text, liarName, wall())
			if err != nil {
				t.Fatal(err)
			}
			if prober.Hear(now, wall(), 0, next.answer(l, &probe, wall())) != nil {
				refused++
			}
		}
		peer, _ := board.Forward(now, nil, -1, 1, nil)
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
