package region

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/storetest"
)

// wall is a time since the Unix epoch.
const wall = 1_764_000_000 * time.Second

const secret = "of all regions"

// world is regions that probe each other over wires, in simulated time.
type world struct {
	t       *testing.T
	now     time.Duration
	key     *Key
	regions map[string]*place
	events  []event
}

// place is a region's gateway.
type place struct {
	world   *world
	name    string
	board   *Board
	prober  *Prober
	replays *Replays
	state   State
	down    bool
	delay   time.Duration            // of its answers, beside the wire
	cut     map[string]bool          // regions that it cannot reach
	forge   func(text string) string // what becomes of its answers; nil = nothing
}

// event happens at a time.
type event struct {
	at time.Duration
	do func()
}

func config(name string, peers ...Peer) Config {
	return Config{
		Name: name, Peers: peers, Interval: 200 * time.Millisecond, Buffer: 2, Gone: 3 * time.Second,
		Steady: 5 * time.Second,
	}
}

// newWorld returns regions with the configurations.
func newWorld(t *testing.T, configs ...Config) *world {
	w := &world{t: t, now: time.Hour, key: NewKey(secret), regions: map[string]*place{}}
	for _, c := range configs {
		kv := storetest.NewMemory()
		b := NewBoard(kv, "board", c)
		w.regions[c.Name] = &place{
			world: w, name: c.Name, board: b, prober: NewProber(b, NewKey(secret), lb.EndpointTag(c.Name)),
			replays: NewReplays(kv, "replays"),
			state:   State{Open: 4}, cut: map[string]bool{},
		}
	}
	return w
}

// run lets time pass, in steps of 10 ms.
func (w *world) run(d time.Duration) {
	for end := w.now + d; w.now < end; w.now += 10 * time.Millisecond {
		for i := 0; i < len(w.events); i++ {
			if e := w.events[i]; e.at <= w.now {
				w.events = append(w.events[:i], w.events[i+1:]...)
				i--
				e.do()
			}
		}
		for _, p := range w.regions {
			if !p.down {
				p.step()
			}
		}
	}
}

func (w *world) later(d time.Duration, do func()) {
	w.events = append(w.events, event{w.now + d, do})
}

func (w *world) wall() time.Duration { return wall + w.now }

// step probes who is due.
func (p *place) step() {
	w := p.world
	if err := p.prober.Tick(w.now); err != nil {
		w.t.Fatal(err)
	}
	for i, peer := range p.board.config.Peers {
		if !p.prober.Due(w.now, i) {
			continue
		}
		text, err := p.prober.Ask(w.now, w.wall(), i)
		if err != nil {
			w.t.Fatal(err)
		}
		other, oneWay := w.regions[peer.Name], peer.Distance/2
		if other == nil || p.cut[peer.Name] || other.cut[p.name] {
			continue
		}
		w.later(oneWay, func() {
			if answer := other.answer(text); answer != "" {
				w.later(oneWay+other.delay, func() { _ = p.prober.Hear(w.now, w.wall(), i, answer) })
			}
		})
	}
}

// answer returns the answer to a probe, "" for none.
func (p *place) answer(text string) string {
	w := p.world
	if p.down {
		return ""
	}
	probe, err := w.key.ReadProbe(text, p.name, w.wall())
	if err == nil {
		err = p.replays.Take(&probe, w.wall())
	}
	if err != nil {
		return ""
	}
	views, err := p.board.Views()
	if err != nil {
		w.t.Fatal(err)
	}
	answer := w.key.SignAnswer(&probe, w.wall(), p.state, views)
	if p.forge != nil {
		answer = p.forge(answer)
	}
	return answer
}

// peer returns what the region knows of a peer.
func (p *place) peer(name string) Status {
	all, err := p.board.Peers(p.world.now)
	if err != nil {
		p.world.t.Fatal(err)
	}
	for i, peer := range p.board.config.Peers {
		if peer.Name == name {
			return all[i]
		}
	}
	p.world.t.Fatalf("%s is no peer of %s", name, p.name)
	return Status{}
}
