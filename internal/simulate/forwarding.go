package simulate

import (
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/region"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/process"
)

// forwarding is what the gateway of a region has to do with those of others, as plugin/regions and plugin/forward have
// it. Gateways do not fail, so that no servers are adopted. A request that the other region refuses does not come home.
type forwarding struct {
	of       *product
	rules    *config.Regions
	board    *region.Board
	key      *region.Key
	replays  *region.Replays
	prober   *region.Prober
	snapshot *region.Snapshot
	queued   []*Request // that wait here and may leave, in the order in which they came; some do not wait any more

	ask     func(peer int, text string) // sends a peer a probe
	forward func(r *Request, peer int)  // sends it a request
}

func newForwarding(p *product) *forwarding {
	shared, c := Memory{}, &p.cfg.Regions
	f := &forwarding{
		of: p, rules: c, board: region.NewBoard(shared, "board", c.Board()), key: region.NewKey(string(c.Secret)),
		replays: region.NewReplays(shared, "probes"), snapshot: region.NewSnapshot(shared, c.Memory),
	}
	f.prober = region.NewProber(f.board, region.Keys{Key: f.key}, uint32(p.rng.Uint64()))
	return f
}

// wall is the time since the Unix epoch: that of a day, since signatures know no times around 0.
func (f *forwarding) wall() time.Duration { return 24*time.Hour + f.of.clock() }

// every is how often a gateway does what is due.
func (f *forwarding) every() time.Duration { return min(process.TickPeriod, f.rules.Interval) }

// tick asks the peers that are due, and sends requests that wait to those that have room, the first that came first.
func (f *forwarding) tick() error {
	now := f.of.clock()
	if err := f.prober.Tick(now); err != nil {
		return err
	}
	for peer := range f.rules.Peers {
		if !f.prober.Due(now, peer) {
			continue
		}
		texts, err := f.prober.Ask(now, f.wall(), peer)
		if err != nil {
			return err
		}
		f.ask(peer, texts.Text)
	}
	kept := f.queued[:0]
	for _, r := range f.queued {
		if r.lease.waits && !(f.board.HasRoom(now, f.rules.Allowed) && f.send(r)) {
			kept = append(kept, r)
		}
	}
	clear(f.queued[len(kept):])
	f.queued = kept
	return nil
}

// answer answers the probe of another region.
func (f *forwarding) answer(text string) (string, error) {
	p := f.of
	now := p.clock()
	probe, err := f.key.ReadProbe(text, f.rules.Name, f.wall())
	if err != nil {
		return "", err
	}
	if err := f.replays.Take(&probe, f.wall()); err != nil {
		return "", err
	}
	views, err := f.board.Views()
	if err != nil {
		return "", err
	}
	var state region.State
	if plan, why := p.policy.Plan(now, &lb.Request{Random: p.rng.Uint64()}, p.view); why == lb.ReasonChosen {
		addrs := make([]string, len(plan.Candidates))
		for i := range addrs {
			addrs[i] = plan.Candidates[i].Addr
		}
		loads, err := p.store.Loads(clusterName, addrs, nil)
		if err != nil {
			return "", err
		}
		state = region.StateOf(&plan, loads, p.store.Queue(now, clusterName))
	}
	told := state.SharedBy(f.replays.Askers(f.wall(), f.rules.Interval))
	return f.key.SignAnswer(&probe, f.wall(), told, views), nil
}

// hear takes what a peer has answered.
func (f *forwarding) hear(peer int, text string) {
	// what comes too late counts as missed
	_ = f.prober.Hear(f.of.clock(), f.wall(), peer, text)
}

// hold notes that a request waits, unless another region has room for it.
func (f *forwarding) hold(r *Request) {
	if !f.send(r) && !r.trip.away {
		f.queued = append(f.queued, r)
	}
}

// send sends a request, for which no endpoint is open here, to a region that has room.
func (f *forwarding) send(r *Request) bool {
	if r.trip.away {
		return false
	}
	now, l := f.of.clock(), &r.lease
	stay := l.staying.Of(now, &l.plan, now-r.came, l.waits, func() int { return f.atHome(r) })
	return f.sendBy(r, f.matched(r), stay)
}

// sendBack sends a request, for which an endpoint may be open here, to a region that has much more of its prompt.
func (f *forwarding) sendBack(r *Request) bool {
	if !f.rules.CachedFirst || r.trip.away {
		return false
	}
	matched := f.matched(r)
	most, leaves := region.HasMuchMore(&r.lease.plan.Prefix, matched, func() int { return f.atHome(r) })
	return leaves && f.sendBy(r, matched, region.Stay{Home: most})
}

// atHome returns how many blocks of a request's prompt the endpoints here have.
func (f *forwarding) atHome(r *Request) int {
	return f.of.store.LongestMatch(f.of.clock(), &r.lease.plan)
}

func (f *forwarding) matched(r *Request) []int {
	return f.snapshot.Match(f.of.clock(), &r.lease.plan.Prefix, f.board.Config().Peers)
}

func (f *forwarding) sendBy(r *Request, matched []int, stay region.Stay) bool {
	now, l := f.of.clock(), &r.lease
	peer, why := f.board.Forward(now, &region.Request{
		Matched: matched, Session: r.Session, Sticky: f.of.cfg.KeepsSessions(), Allowed: f.rules.Allowed, Stay: stay,
	})
	if peer == region.None {
		l.staying.Note(now, why)
		return false
	}
	id, reserved := l.id, l.waits
	f.of.stopWaiting(r)
	if l.id = 0; reserved {
		f.of.store.Release(now, id)
	}
	prompt := l.plan.Prefix
	f.snapshot.Record(now, &prompt, &f.board.Config().Peers[peer])
	r.trip = trip{away: true, peer: peer, at: now, prompt: &prompt}
	if matched != nil {
		r.trip.had = matched[peer]
	}
	f.forward(r, peer)
	return true
}

// ended notes whether the other region has served a request that was sent there.
func (f *forwarding) ended(r *Request, served bool) error {
	if !served {
		f.snapshot.Forget(r.trip.prompt, &f.board.Config().Peers[r.trip.peer], r.trip.had)
	}
	return f.board.End(f.of.clock(), r.trip.peer, r.trip.at, served)
}
