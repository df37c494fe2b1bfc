package core

import (
	"cmp"
	"errors"
	"slices"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/region"
	"github.com/warmgate/warmgate/plugin/config"
)

// forwarding is what other regions have to do with a request.
type forwarding struct {
	from string // region that has forwarded it to this one, "" for a client's request
	to   string // region that it was forwarded to, "" for one that is served here
	why  region.Reason
}

// meetRegions does what has to be done with a request before it is decided, where regions are configured: the probe of
// another region is answered, and then nothing else is done. What clients send in headers of regions never decides.
func (s *Stream) meetRegions() (answered bool) {
	homes := s.plugin.set.Regions()
	if len(homes) == 0 {
		return false
	}
	s.traits.read(s)
	if probe := s.traits.value(headerProbe); probe != "" && s.traits.value(":path") == probePath &&
		s.answerProbe(homes, probe) {
		return true
	}
	hop := s.traits.value(headerHop)
	if hop == "" {
		return false
	}
	s.RemoveRequestHeader(headerHop)
	v := s.plugin.vm
	var from region.Hop
	for _, c := range homes {
		h := v.regions.of(c).key.ReadHop(hop, c.Regions.Name, v.gw.Wall(), s.hopSubject())
		if h.Forwarded() && (h.Odd == nil || !from.Forwarded()) {
			from = h
		}
	}
	s.region.from = from.From
	switch {
	case !from.Forwarded():
		v.stats.count(statForgedHops, 1)
		return false
	case errors.Is(from.Odd, region.ErrStale):
		v.stats.countIf(statOddHops+";cause=late", 1)
	case from.Odd != nil:
		v.stats.countIf(statOddHops+";cause=elsewhere", 1)
	}
	v.stats.countIf(statServedFor+";region="+from.From, 1)
	return false
}

// hopSubject is what both gateways see of a forwarded request.
func (s *Stream) hopSubject() string {
	return s.traits.value(":method") + " " + s.traits.value(":path")
}

// answerProbe answers the probe of another region. A stranger learns nothing: the request goes on as any other. Who has
// a probe that was signed knows of the path, and may not make the servers work by it: if it is old, was answered, or is
// for another region, it gets a 404.
func (s *Stream) answerProbe(homes []*config.Config, text string) bool {
	v := s.plugin.vm
	wall, signed := v.gw.Wall(), false
	for _, c := range homes {
		h := v.regions.of(c)
		route, err := h.key.ReadProbe(text, c.Regions.Name, wall)
		signed = signed || route.From != ""
		if err != nil || h.replays.Take(&route, wall) != nil {
			continue
		}
		views, err := h.board.Views()
		if err != nil {
			continue
		}
		s.cfg, s.scope = c, c.Regions.Cluster
		s.goHome()
		answer := h.key.SignAnswer(&route, wall, v.regions.state(v.ReadClock(), h), views)
		s.enter(phaseUncounted)
		s.Reply(204, [][2]string{{headerAnswer, answer}}, "")
		s.settled = true // it is counted under no reason
		return true
	}
	v.stats.count(statForgedProbes, 1)
	if signed {
		s.enter(phaseUncounted)
		s.Reply(404, nil, "")
		s.settled = true
	}
	return signed
}

// homeScope routes a request to this region's own servers, and returns their cluster: unless the route, which has led
// to the given cluster if that is known, leads to one by which the plugin makes calls. What another region has
// forwarded may have come with the name of a peer's cluster in the header, and gateways go on reporting that.
func (s *Stream) homeScope(cluster string) string {
	if cluster == "" {
		cluster = s.Cluster()
	}
	if set := s.plugin.set; set.Owns(cluster) && !set.IsPeer(cluster) {
		return cluster
	}
	s.goHome()
	return s.cfg.Regions.Cluster
}

// goHome routes the request to this region's own servers.
func (s *Stream) goHome() { s.SetCluster(s.cfg.Regions.Header, s.cfg.Regions.Cluster) }

// forward sends the request to another region, if none of this one's endpoints is open for it and one of the others
// has room. It reports whether it has.
func (s *Stream) forward() bool {
	rules := &s.cfg.Regions
	if !rules.Forwards() || s.cfg.Shadow || s.region.from != "" || s.phase != phaseReserving {
		return false
	}
	v, plan := s.plugin.vm, &s.lease.reservation.plan
	h, now := v.regions.of(s.cfg), s.lease.now()
	var matched []int
	if plan.Prefix.NeedsLookup() {
		matched = h.snapshot.Match(now, &plan.Prefix, h.board.Config().Peers)
	}
	peer, why := h.board.Forward(now, matched, cmp.Or(s.session.key, plan.Random), rules.Allowed)
	if peer == region.None {
		return false
	}
	if w := &s.wait; s.isQueued() {
		w.queued, w.waited = true, now-w.since
	}
	s.release()
	to := &rules.Peers[peer]
	if plan.Prefix.NeedsLookup() {
		h.snapshot.Record(now, &plan.Prefix, &h.board.Config().Peers[peer])
	}
	s.region.to, s.region.why = to.Name, why
	s.SetRequestHeader(headerHop, h.key.SignHop(rules.Name, to.Name, v.gw.Wall(), s.hopSubject()))
	s.Unsteer()
	s.SetCluster(rules.Header, to.Cluster)
	v.stats.countIf(statForwarded+";region="+to.Name+";reason="+why.String(), 1)
	s.countWaited()
	s.decided(lb.ReasonForwarded)
	return true
}

// recall has a request served at home after all, which was about to be forwarded when something failed.
func (s *Stream) recall() {
	s.region.to = ""
	s.RemoveRequestHeader(headerHop)
	s.goHome()
}

// isFullOrLate reports whether a request is refused that another region may have room for.
func isFullOrLate(err error) bool {
	return errors.Is(err, lb.ErrFull) || errors.Is(err, lb.ErrQueueFull) || errors.Is(err, lb.ErrEvicted) ||
		errors.Is(err, lb.ErrHopeless)
}

// forwardWaiting forwards requests that wait, those that came first before the others, as long as another region has
// room: room there is learned of at any time.
func (w *waiters) forwardWaiting() {
	var list []*Stream
	for s := range w.held {
		if s.cfg.Regions.Forwards() && s.region.from == "" && s.isQueued() {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, byArrival)
	full := map[*config.Config]bool{} // no other region has room for its requests
	for _, s := range list {
		if full[s.cfg] {
			continue
		}
		forwarded := false
		w.runAs(s.context, "a request for another region", func() {
			if forwarded = s.forward(); forwarded {
				s.Resume()
			}
		}, s.grantRecovered)
		full[s.cfg] = !forwarded
	}
}

// text returns where the request was forwarded, or from where, for the access log.
func (f *forwarding) text() string {
	switch {
	case f.to != "":
		return " region=" + f.to + " why=" + f.why.String()
	case f.from != "":
		return " from=" + f.from
	}
	return ""
}
