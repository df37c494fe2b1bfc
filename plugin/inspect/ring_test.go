package inspect

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/warmgate/warmgate/internal/state"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/process"
	"github.com/warmgate/warmgate/plugin/process/processtest"
	"github.com/warmgate/warmgate/plugin/views"
)

// fakeGateway is what the inspector uses of a gateway.
type fakeGateway struct {
	host.Gateway
	kv    lb.KV
	now   time.Duration
	known *lb.View // of each cluster, as its admin page has it
}

func (g *fakeGateway) KV() lb.KV           { return g.kv }
func (g *fakeGateway) Now() time.Duration  { return g.now }
func (g *fakeGateway) Wall() time.Duration { return wallAhead + g.now }

func (g *fakeGateway) KnownView(time.Duration, string, *config.Config) *lb.View { return g.known }

// wallAhead is how far the wall clock is ahead of the process's.
const wallAhead = 20_000 * 24 * time.Hour

// alwaysInspected is the VM of an inspector.
type alwaysInspected struct{}

func (alwaysInspected) Parts() []*config.Config { return nil }
func (alwaysInspected) IsInspected() bool       { return true }

// newVMs returns the inspectors of several VMs of a gateway.
func newVMs(t *testing.T, n int) (*fakeGateway, []*Inspector) {
	t.Helper()
	g := &fakeGateway{kv: &processtest.KV{Cells: map[string]processtest.Cell{}}, now: time.Hour}
	if err := process.Prepare(g.kv); err != nil {
		t.Fatal(err)
	}
	var vms []*Inspector
	for i := range n {
		in := &Inspector{Env: &host.Env{GW: g}, core: alwaysInspected{}}
		in.views = views.New(in.Env, nil, nil)
		in.watch = watch{kv: g.kv, owner: uint64(i + 1), slot: -1}
		in.Decisions = &Decisions{env: in.Env, watch: &in.watch}
		vms = append(vms, in)
	}
	return g, vms
}

// tick ticks all VMs, a tick later.
func tick(g *fakeGateway, vms []*Inspector) {
	g.now += process.TickPeriod
	for _, in := range vms {
		in.Tick(in.ReadClock())
	}
}

// shownBy returns the decisions that a VM shows, by their reasons.
func shownBy(t *testing.T, in *Inspector, since int64) (reasons string, ended int, lost int64) {
	t.Helper()
	text, lost := in.Decisions.toldSince(in.ReadClock(), since)
	var list []state.Decision
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	for i := range list {
		reasons += list[i].Reason
		if list[i].Ended {
			ended++
		}
	}
	return reasons, ended, lost
}

func decide(in *Inspector, reason string) uint64 {
	return in.Decisions.Add(func() state.Decision { return state.Decision{Reason: reason} })
}

// Decisions of all VMs are shown by any of them, in their order, and again when more of them is known.
func TestDecisionsOfAllVMs(t *testing.T) {
	g, vms := newVMs(t, 2)
	if tick(g, vms); vms[0].Decisions.Watched(g.now) {
		t.Fatal("somebody watches")
	}
	vms[1].watch.begin(g.now)
	tick(g, vms)
	if !vms[0].Decisions.Watched(g.now) {
		t.Fatal("nobody watches")
	}
	first := decide(vms[0], "a")
	g.now += time.Millisecond
	decide(vms[1], "b")
	g.now += time.Millisecond
	decide(vms[0], "c")
	tick(g, vms)
	seen := vms[0].GW.Wall().Milliseconds()
	for _, in := range vms {
		if got, ended, lost := shownBy(t, in, 0); got != "abc" || ended != 0 || lost != 0 {
			t.Errorf("shows %q, %d ended, %d lost", got, ended, lost)
		}
	}
	for range 5 {
		tick(g, vms)
	}
	vms[0].Decisions.End(first, func(d *state.Decision) { d.Ended = true })
	tick(g, vms)
	if got, ended, _ := shownBy(t, vms[1], seen+1+int64(overlap/time.Millisecond)); got != "a" || ended != 1 {
		t.Errorf("what is new: %q, %d ended", got, ended)
	}
	for range watchedFor / process.TickPeriod {
		tick(g, vms)
	}
	vms[0].watch.begin(g.now)
	tick(g, vms)
	if got, _, _ := shownBy(t, vms[1], 0); got != "" {
		t.Errorf("who watches later sees %q", got)
	}
	decide(vms[0], "d")
	vms[0].Decisions.End(first, func(d *state.Decision) { d.Ended = true }) // which nobody sees any more
	tick(g, vms)
	if got, ended, _ := shownBy(t, vms[1], 0); got != "d" || ended != 0 {
		t.Errorf("who watches later sees %q, %d ended", got, ended)
	}
}

// A busy VM keeps a few decisions of each tick, and counts those that nobody has seen.
func TestLostDecisions(t *testing.T) {
	g, vms := newVMs(t, 1)
	vms[0].watch.begin(g.now)
	tick(g, vms)
	for range perTick + 3 {
		decide(vms[0], "a")
	}
	if tick(g, vms); len(vms[0].Decisions.records) != maxDecisions {
		t.Error("the ring has grown")
	}
	got, _, lost := shownBy(t, vms[0], 0)
	if len(got) != perTick || lost != 3 {
		t.Errorf("%d are shown, %d are lost", len(got), lost)
	}
	vms[0].watch.begin(g.now + 1) // they are seen
	for range maxDecisions / perTick {
		for range perTick {
			decide(vms[0], "b")
		}
		tick(g, vms)
	}
	if got, _, lost = shownBy(t, vms[0], 0); len(got) != maxDecisions || got[0] != 'b' || lost != 3 {
		t.Errorf("%s are shown, %d are lost", got, lost)
	}
	for range perTick {
		decide(vms[0], "c")
	}
	tick(g, vms)
	if _, _, lost = shownBy(t, vms[0], 0); lost != 3+perTick {
		t.Errorf("%d are lost, of which the first %d were overwritten before anybody looked", lost, perTick)
	}
	vms[0].Decisions.End(1, func(*state.Decision) { t.Error("a decision that is not kept is changed") })
}

// What was told is byte for byte as documented.
func TestFormatsOfDecisions(t *testing.T) {
	g, vms := newVMs(t, 1)
	g.now = 0x0102030405000000
	vms[0].watch.begin(g.now)
	vms[0].watch.tick(g.now)
	decide(vms[0], "a")
	vms[0].Decisions.lost = 2
	at := vms[0].GW.Wall().Milliseconds()
	vms[0].Decisions.tell(g.now)
	text := `{"id":"1-1","at_ms":` + string(mustJSON(t, at)) +
		`,"cluster":"","policy":"","reason":"a","prompt_tokens":0,"output_tokens":0}`
	want := "\x01\x00\x00\x00\x00\x00\x00\x00" + "\x02\x00\x00\x00\x00\x00\x00\x00"
	for i := range 8 {
		want += string([]byte{byte(at >> (8 * i))})
	}
	want += "\x00\x00\x00\x05\x04\x03\x02\x01" + string([]byte{byte(len(text))}) + text
	if got, _, _ := g.kv.Get(process.KeyDecisions + "0"); string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// As long as nobody watches, a request costs a comparison.
func TestNobodyWatching(t *testing.T) {
	g, vms := newVMs(t, 1)
	tick(g, vms)
	if n := testing.AllocsPerRun(100, func() {
		if vms[0].Decisions.Watched(g.now) {
			t.Error("somebody watches")
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// Where an answer has failed, a later call begins it again: for all that wait.
func TestFailedAnswersAreBegunAgain(t *testing.T) {
	g, vms := newVMs(t, 1)
	in, answered := vms[0], 0
	count := func() { answered++ }
	in.waiting, in.begunAt = []func(){count}, g.now
	if in.await(g.now+patience-1, false, count); answered != 0 {
		t.Error("an answer that may still come is begun again")
	}
	if in.await(g.now+patience, false, count); answered != 3 {
		t.Errorf("%d of three calls are answered", answered)
	}
}
