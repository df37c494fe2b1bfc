package redisclient_test

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/storetest"
	"github.com/warmgate/warmgate/redisclient"
)

// Candidates of one class in adjacent rows are one entry of a list, whatever their number.
func TestListFormat(t *testing.T) {
	const (
		head, class, run, hash = 18, 56, 6, 4
		n, parts               = 300, 3 // of 128 candidates; each begins a run
	)
	s := redisserver.StartT(t, redisserver.Options{})
	for _, c := range []struct {
		name string
		like func(i int) lb.Candidate
		want int
	}{
		{"one class", func(int) lb.Candidate { return lb.Candidate{Weight: 1} }, head + class + parts*run + n*hash},
		{
			"the last is another", func(i int) lb.Candidate { return lb.Candidate{Weight: float64(1 + i/(n-1))} },
			head + 2*class + (parts+1)*run + n*hash,
		},
		{
			"in turns", func(i int) lb.Candidate { return lb.Candidate{Weight: float64(1 + i%2)} },
			head + 2*class + n*run + n*hash,
		},
	} {
		w := dial(t, s)
		store := newStore(w, 1, time.Second)
		p := lb.Plan{Scope: c.name}
		for i := range n {
			candidate := c.like(i)
			candidate.Addr, candidate.Slope = fmt.Sprintf("10.0.%d.%d:80", i/200, i%200), 1
			p.Candidates = append(p.Candidates, candidate)
		}
		granted := map[int]bool{}
		for id := range lb.LeaseID(n) {
			p.Random = uint64(id) * 0x9e3779b9
			store.Reserve(0, id, &p, func(g lb.Grant, err error) {
				if err != nil {
					t.Fatalf("%s: %v", c.name, err)
				}
				granted[g.Index] = true
			})
		}
		lists := w.value("KEYS", redisclient.KeysOf(c.name).Candidates+"*").Items
		if len(lists) != 1 {
			t.Fatalf("%s: %d lists", c.name, len(lists))
		}
		if got := w.value("STRLEN", string(lists[0].Str)).Int; got != int64(c.want) {
			t.Errorf("%s: a list of %d bytes, want %d", c.name, got, c.want)
		}
		if c.name == "one class" && len(granted) != n {
			t.Errorf("%s: %d of %d endpoints have got a request", c.name, len(granted), n)
		}
	}
}

// Heartbeats update the time in a list of candidates. If it is late, what others have recorded since is fresh all the
// same.
func TestTimeInAList(t *testing.T) {
	onEachVersion(t, func(t *testing.T, w *syncTransport, s *redisclient.Store) {
		plan := storetest.WithPrompt(manualPlan, 1000, numberedBlocks(3, 1))
		cachedBlocks(t, s, 1, plan)
		view := string(w.value("KEYS", redisclient.KeysOf("llm").Candidates+"*").Items[0].Str)
		tick := func() uint16 { return binary.LittleEndian.Uint16(w.value("GETRANGE", view, "16", "17").Str) }
		if behind := tickNow() - tick(); behind > 1 {
			t.Errorf("a new list is %d ticks behind", behind)
		}
		late := binary.LittleEndian.AppendUint16(nil, tickNow()-3)
		w.value("SETRANGE", view, "16", string(late))
		if n := cachedBlocks(t, s, 2, plan); n != 3 {
			t.Errorf("%d blocks are known by a list that is behind, want 3", n)
		}
		s.Heartbeat(0)
		if behind := tickNow() - tick(); behind > 1 {
			t.Errorf("after a heartbeat the list is %d ticks behind", behind)
		}
		cachedBlocks(t, s, 3, plan)
		w.value("DEL", view)
		s.Heartbeat(0)
		if w.value("EXISTS", view).Int != 0 {
			t.Error("a heartbeat created a list")
		}
	})
}
