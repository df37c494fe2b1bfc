// Package regions is what a VM knows of other regions: it asks their gateways how they are, answers theirs, and sees
// what servers have room for that were adopted.
package regions

import (
	"errors"
	"time"

	"github.com/warmgate/warmgate/internal/statname"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/region"
	"github.com/warmgate/warmgate/plugin/clusters"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/endpoints"
	"github.com/warmgate/warmgate/plugin/engines"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/process"
	"github.com/warmgate/warmgate/plugin/stats"
	"github.com/warmgate/warmgate/plugin/stores"
	"github.com/warmgate/warmgate/plugin/views"
)

// The headers and the path by which the gateways of regions speak with each other.
const (
	ProbePath    = "/.well-known/warmgate/region"
	headerProbe  = "x-warmgate-probe"
	headerAnswer = "x-warmgate-probe-answer"
	headerHop    = "x-warmgate-hop"
	ofNew        = "-new" // behind the name of a header: signed with the new secret, while that is being replaced
)

// Regions is the part of a VM that knows of other regions: it asks their gateways how they are, and answers theirs.
type Regions struct {
	*host.Env
	inForce  func() []*config.Config // those that name regions, the newest first
	clusters clusters.Known
	stores   *stores.Stores
	views    *views.Views
	wakeAt   func(now, at time.Duration) // has a tick come soon after a time
	scraping *engines.Scraping
	homes    []*Home
	id       uint64 // of this VM
}

// New returns what a VM knows of other regions. inForce returns the configurations that name some, the newest
// first, and wakeAt has a tick come soon after a time.
func New(
	e *host.Env, inForce func() []*config.Config, known clusters.Known, s *stores.Stores, v *views.Views,
	scraping *engines.Scraping, wakeAt func(now, at time.Duration),
) *Regions {
	return &Regions{
		Env: e, inForce: inForce, clusters: known, stores: s, views: v, scraping: scraping, wakeAt: wakeAt,
	}
}

// ProbeHeaders and HopHeaders are those of a probe, and of a request that was forwarded. Texts in the second ones are
// signed with the new secret, while it is being replaced.
var (
	ProbeHeaders = [...]string{headerProbe, headerProbe + ofNew}
	HopHeaders   = [...]string{headerHop, headerHop + ofNew}
)

// Texts returns what a request has in such headers, each of which read returns; false if it has none of them.
func Texts(headers [2]string, read func(name string) string) (t region.Texts, ok bool) {
	t = region.Texts{Text: read(headers[0]), New: read(headers[1])}
	return t, t != region.Texts{}
}

// inHeaders returns texts as headers.
func inHeaders(headers [2]string, t region.Texts) [][2]string {
	list := [][2]string{{headers[0], t.Text}}
	if t.New != "" {
		list = append(list, [2]string{headers[1], t.New})
	}
	return list
}

// Home is this region as configurations with equal regions see it. Those of one name share what they know, whatever
// their secrets: these may be replaced while the servers of a peer are adopted.
type Home struct {
	of       *Regions
	Config   *config.Config // one of them
	usedAt   time.Duration
	Board    *region.Board
	keys     region.Keys
	replays  *region.Replays
	snapshot *region.Snapshot
	leader   process.Leadership
	prober   *region.Prober         // of the VM that asks for all of the gateway, nil in others
	Loads    map[string]*redisLoads // of adopted clusters, where they are counted in Redis
}

// redisLoads is what this VM knows of the loads of an adopted cluster in Redis. It asks for them when it looks for room
// there, and at heartbeats for some time.
type redisLoads struct {
	addrs    []string // of the endpoints, as of the latest look
	probedAt time.Duration
	loads    map[string]lb.Load
	at       time.Duration // when these were asked for
	sent     uint32        // requests that this gateway had sent there by then
}

const (
	// loadsFresh is for how long loads in Redis are good enough: an endpoint of which no more is known counts as full.
	loadsFresh = 2 * stores.HeartbeatPeriod
	// probedLately is for how long after a look a VM keeps asking Redis.
	probedLately = 10 * time.Second
)

// Of returns the home of a configuration that names regions.
func (r *Regions) Of(c *config.Config) *Home {
	for _, h := range r.homes {
		if h.Config.Regions.SameBoard(&c.Regions) {
			h.Config, h.usedAt = c, r.Clock()
			return h
		}
	}
	// Configurations that differ share what they know, as of the time before one was replaced.
	kv, name := r.GW.KV(), process.KeyRegions+c.Regions.Name
	if r.id == 0 {
		r.id = r.GW.Random()
	}
	h := &Home{
		of: r, Config: c, usedAt: r.Clock(),
		Board:   region.NewBoard(kv, name+"/board", c.Regions.Board()),
		keys:    region.KeysOf(string(c.Regions.Secret), string(c.Regions.Previous)),
		replays: region.NewReplays(kv, name+"/probes"), snapshot: region.NewSnapshot(kv, c.Regions.Memory),
		leader: process.Leadership{KV: kv, ID: r.id, Key: name + "/prober"},
		Loads:  map[string]*redisLoads{},
	}
	if _, _, err := kv.Get(h.leader.Key); errors.Is(err, lb.ErrNotFound) {
		_ = kv.Set(h.leader.Key, []byte{0}, 0) // the first value may be lost: then two VMs ask for a moment
	}
	r.homes = append(r.homes, h)
	return h
}

// Tick asks the peers that are due, if this VM asks for the gateway: each by the newest configuration that has it. One
// that was replaced lives as long as its last request.
func (r *Regions) Tick(now time.Duration) {
	asked := map[string]bool{}
	for _, c := range r.inForce() {
		if len(c.Regions.Peers) > 0 {
			r.ask(now, r.Of(c), asked)
		}
	}
	kept := r.homes[:0]
	for _, h := range r.homes {
		if now-h.usedAt < endpoints.ClusterAge {
			kept = append(kept, h)
		}
	}
	r.homes = kept
}

// HaveRoom reports whether another region has room for a request of the configuration.
func (r *Regions) HaveRoom(c *config.Config) bool {
	return r.Of(c).Board.HasRoom(r.ReadClock(), c.Regions.Allowed)
}

// ask asks the peers of a home that are due, but for those that were asked.
func (r *Regions) ask(now time.Duration, h *Home, asked map[string]bool) {
	if h.Config.UsesRedis() && h.Config.Regions.Adopts() && !r.Serves {
		return // who asks also looks at adopted servers in Redis
	}
	leads, taken := h.leader.Lead(now, h.Config.Regions.Interval, r.Serves)
	switch {
	case !leads:
		h.prober = nil
		return
	case taken || h.prober == nil:
		h.prober = region.NewProber(h.Board, h.keys, uint32(r.GW.Random()))
	}
	if every := h.Config.Regions.Interval; every < process.TickPeriod {
		r.wakeAt(now, now+every)
	}
	r.note(h.prober.Tick(now))
	for i := range h.Config.Regions.Peers {
		id := h.leader.Key + " " + h.Config.Regions.Peers[i].Name
		if !asked[id] && h.prober.Due(now, i) {
			r.askPeer(now, h, i)
			r.seeServers(now, h, i)
		}
		asked[id] = true
	}
}

func (r *Regions) askPeer(now time.Duration, h *Home, peer int) {
	prober := h.prober
	texts, err := prober.Ask(now, r.GW.Wall(), peer)
	if err != nil {
		r.note(err)
		return
	}
	call := host.ProbeCall{
		Path: ProbePath, Headers: inHeaders(ProbeHeaders, texts), Answer: headerAnswer, Timeout: region.Timeout,
	}
	err = r.GW.Probe(h.Config.Regions.Peers[peer].Cluster, call, func(text string) {
		if text != "" {
			r.note(prober.Hear(r.ReadClock(), r.GW.Wall(), peer, text))
		}
	})
	if err != nil {
		r.Stats.Count(stats.ProbeErrors, 1) // the probe will have been missed
	}
}

// note counts an answer that was refused, or what could not be written.
func (r *Regions) note(err error) {
	if err != nil {
		r.Stats.Count(stats.ProbeErrors, 1)
	}
}

// gauge shows what is known of the peers, by the newest configuration in force that has them: one that was replaced
// knows what it knew last. The gauges of peers that none has any more are at rest.
func (r *Regions) gauge(now time.Duration) {
	shown := map[string]bool{}
	for _, c := range r.inForce() {
		if len(c.Regions.Peers) > 0 {
			r.show(now, r.Of(c), shown)
		}
	}
	for _, h := range r.homes {
		for _, p := range h.Config.Regions.Peers {
			for _, stat := range [...]string{stats.PeerOpen, stats.Adopted} {
				if name := statname.With(stat, "region", p.Name); !shown[p.Name] && r.Stats.Has(name) {
					r.Stats.Set(name, 0)
				}
			}
		}
	}
}

// show shows what is known of the peers of a home, but for those that were shown.
func (r *Regions) show(now time.Duration, h *Home, shown map[string]bool) {
	all, err := h.Board.Peers(now)
	if err != nil {
		return
	}
	for i := range all {
		p, s := &h.Config.Regions.Peers[i], &all[i]
		if shown[p.Name] {
			continue
		}
		shown[p.Name] = true
		of := func(stat string) string { return statname.With(stat, "region", p.Name) }
		r.Stats.SetIf(of(stats.PeerOpen), oneIf(s.Available))
		if p.Adopt != "" {
			r.Stats.SetIf(of(stats.Adopted), oneIf(s.Adopted))
		}
		if s.Age >= 0 {
			r.Stats.SetIf(of(stats.PeerAge), uint64(s.Age.Milliseconds()))
			r.Stats.SetIf(of(stats.PeerRTT), uint64(s.RTT.Milliseconds()))
		}
	}
}

// EachPeer calls f with what is known of the other regions, by the configurations in force that name them.
func (r *Regions) EachPeer(now time.Duration, f func(home, peer string, s region.Status)) {
	shown := map[string]bool{}
	for _, c := range r.inForce() {
		h := r.Of(c)
		all, err := h.Board.Peers(now)
		for i := range all {
			if name := h.Config.Regions.Peers[i].Name; err == nil && !shown[name] {
				shown[name] = true
				f(h.Config.Regions.Name, name, all[i])
			}
		}
	}
}

// oneIf returns 1 for true.
func oneIf(is bool) uint64 {
	if is {
		return 1
	}
	return 0
}

// stateOf returns what there is room for in a cluster, by one of the configurations of the region. known: so far as its
// servers, and what is in flight there, are known. That is as of an earlier time if it is by loads in Redis. request is
// the context of one that is routed there, 0 for none.
func (r *Regions) stateOf(now time.Duration, h *Home, c *config.Config, view *lb.View, request uint32) (
	s region.State, earlier *redisLoads, known bool,
) {
	cl, plan, why := r.planOf(now, c, view, request)
	if why != lb.ReasonChosen {
		return s, nil, cl != nil
	}
	loads, earlier, known := r.loads(now, h, cl, &plan)
	if !known {
		return s, nil, false
	}
	store, _ := r.stores.Of(c)
	return region.StateOf(&plan, loads, store.Queue(now, cl.Name)), earlier, true
}

// planOf plans a request in a cluster that nothing is known of. It returns why there is no plan, and no cluster where
// that is not known.
func (r *Regions) planOf(now time.Duration, c *config.Config, view *lb.View, request uint32) (
	*clusters.Cluster, lb.Plan, lb.Reason,
) {
	if view == nil {
		return nil, lb.Plan{}, lb.ReasonNoEndpoints
	}
	cl, policy, err := r.clusters.Get(now, view.Cluster, c)
	if err != nil {
		return nil, lb.Plan{}, lb.ReasonStoreError
	}
	cl.Views[view.ListID] = view
	if cl.IsOutdated(now, view, c) {
		return cl, lb.Plan{}, lb.ReasonNoEndpoints
	}
	r.scraping.NeedAlone(request, cl.Metrics, c) // else it would seem to have no room
	plan, why := policy.Plan(now, &lb.Request{Random: r.GW.Random()}, view)
	return cl, plan, why
}

// loads returns what is in flight at each candidate, if that is known: now, or when it was asked of Redis.
func (r *Regions) loads(now time.Duration, h *Home, cl *clusters.Cluster, plan *lb.Plan) (
	loads []lb.Load, earlier *redisLoads, known bool,
) {
	addrs := addrsOf(plan)
	_, redis := r.stores.Of(h.Config)
	if redis == nil || !redis.Remote.Ready(now) { // what Redis cannot count is counted here
		loads, err := r.stores.Local.Loads(cl.Name, addrs, nil)
		return loads, nil, err == nil
	}
	l := h.Loads[cl.Name]
	if l == nil {
		l = &redisLoads{}
		h.Loads[cl.Name] = l
	}
	l.addrs, l.probedAt = addrs, now
	for _, addr := range addrs {
		load, there := l.loads[addr]
		if !there || now-l.at > loadsFresh {
			return nil, nil, false
		}
		loads = append(loads, load)
	}
	return loads, l, true
}

// askRedis asks what is in flight at the servers of an adopted peer, for the next look. So many requests are counted on
// the board, but not in Redis yet.
func (r *Regions) askRedis(now time.Duration, h *Home, peer int, underWay uint32) {
	_, redis := r.stores.Of(h.Config)
	cluster := h.Config.Regions.Peers[peer].Adopt
	l := h.Loads[cluster]
	if redis == nil || l == nil || len(l.addrs) == 0 || !redis.Remote.Ready(now) {
		return
	}
	sent, err := h.Board.Sent(peer)
	if err != nil {
		r.note(err)
		return
	}
	addrs := l.addrs
	redis.Remote.Loads(now, cluster, addrs, func(loads []lb.Load, err error) {
		if err != nil || now < l.at {
			return
		}
		l.at, l.sent, l.loads = now, sent-underWay, make(map[string]lb.Load, len(addrs))
		for i, addr := range addrs {
			l.loads[addr] = loads[i]
		}
	})
}

// Heartbeat asks Redis for what the next look wants to know, and shows what is known of the peers.
func (r *Regions) Heartbeat(now time.Duration) {
	for _, h := range r.homes {
		for i, p := range h.Config.Regions.Peers {
			if l := h.Loads[p.Adopt]; l != nil && now-l.probedAt < probedLately {
				r.askRedis(now, h, i, 0)
			}
		}
	}
	r.gauge(now)
}
