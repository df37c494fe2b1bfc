package region

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb/storetest"
)

// wall is a time since the Unix epoch.
const wall = 1_764_000_000 * time.Second

const secret = "of all regions"

// world is regions that probe each other over wires, in simulated time.
type world struct {
	t        *testing.T
	now      time.Duration
	key      *Key
	regions  map[string]*place // the first gateway of each
	gateways []*place
	random   *rand.Rand
	events   []event
}

// place is a region's gateway.
type place struct {
	world   *world
	name    string
	kv      *storetest.Memory
	board   *Board
	prober  *Prober
	replays *Replays
	state   State
	down    bool
	frozen  bool                     // what comes is answered when it thaws
	held    []func()                 // what has come since
	delay   time.Duration            // of its answers, beside the wire
	far     time.Duration            // how much longer than configured the wires to it are
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

// newWorld returns regions with the configurations, each for a gateway.
func newWorld(t *testing.T, configs ...Config) *world {
	w := &world{
		t: t, now: time.Hour, key: NewKey(secret), regions: map[string]*place{},
		random: rand.New(rand.NewPCG(1, 2)),
	}
	for _, c := range configs {
		kv := storetest.NewMemory()
		p := &place{
			world: w, name: c.Name, kv: kv, replays: NewReplays(kv, "replays"),
			state: State{Open: 4}, cut: map[string]bool{},
		}
		p.push(c)
		w.gateways = append(w.gateways, p)
		if w.regions[c.Name] == nil {
			w.regions[c.Name] = p
		}
	}
	return w
}

// push replaces the configuration.
func (p *place) push(c Config) {
	p.board = NewBoard(p.kv, "board", c)
	p.prober = NewProber(p.board, KeysOf(secret, ""), p.world.random.Uint32())
}

// next returns the gateway of a region that gets the next probe, nil if there is no such region.
func (w *world) next(region string) *place {
	var all []*place
	for _, p := range w.gateways {
		if p.name == region {
			all = append(all, p)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all[w.random.IntN(len(all))]
}

// run lets time pass, in steps of 10 ms. What is under way comes at its own time.
func (w *world) run(d time.Duration) {
	const tick = 10 * time.Millisecond
	for end := w.now + d; w.now < end; {
		for _, p := range w.gateways {
			if !p.down && !p.frozen {
				p.step()
			}
		}
		next := w.now + tick
		for len(w.events) > 0 && w.events[0].at <= next {
			e := w.events[0]
			w.now, w.events = e.at, w.events[1:]
			e.do()
		}
		w.now = next
	}
}

func (w *world) later(d time.Duration, do func()) {
	at := w.now + d
	i, _ := slices.BinarySearchFunc(w.events, at+1, func(e event, t time.Duration) int { return cmp.Compare(e.at, t) })
	w.events = slices.Insert(w.events, i, event{at, do})
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
		texts, err := p.prober.Ask(w.now, w.wall(), i)
		if err != nil {
			w.t.Fatal(err)
		}
		other := w.next(peer.Name)
		if other == nil || p.cut[peer.Name] || other.cut[p.name] {
			continue
		}
		oneWay, prober := (peer.Distance+other.far)/2, p.prober
		arrive := func() {
			if answer := other.answer(texts.Text); answer != "" {
				w.later(oneWay+other.delay, func() { _ = prober.Hear(w.now, w.wall(), i, answer) })
			}
		}
		w.later(oneWay, func() {
			if other.frozen {
				other.held = append(other.held, arrive)
				return
			}
			arrive()
		})
	}
}

// thaw has a frozen gateway go on with what has come in the meantime.
func (p *place) thaw() {
	p.frozen = false
	for _, arrive := range p.held {
		arrive()
	}
	p.held = nil
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

// gone reports whether the region believes that a peer is gone.
func (p *place) gone(name string) bool {
	p.peer(name)
	i := slices.IndexFunc(p.board.config.Peers, func(peer Peer) bool { return peer.Name == name })
	return p.board.peers[i].gone
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
