package core

import (
	"cmp"
	"errors"
	"time"

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
	for _, c := range homes {
		h := v.regions.of(c).key.ReadHop(hop, c.Regions.Name, v.gw.Wall(), s.hopSubject())
		if h.Forwarded() {
			s.region.from = h.From
			v.stats.countIf(statServedFor+";region="+h.From, 1)
			return false
		}
	}
	v.stats.count(statForgedHops, 1)
	return false
}

// hopSubject is what both gateways see of a forwarded request.
func (s *Stream) hopSubject() string {
	return s.traits.value(":method") + " " + s.traits.value(":path")
}

// answerProbe answers the probe of another region. A stranger learns nothing: the request goes on as any other.
func (s *Stream) answerProbe(homes []*config.Config, text string) bool {
	v := s.plugin.vm
	wall := v.gw.Wall()
	for _, c := range homes {
		h := v.regions.of(c)
		route, err := h.key.ReadProbe(text, c.Regions.Name, wall)
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
		s.settled = true
		s.Reply(204, [][2]string{{headerAnswer, answer}}, "")
		return true
	}
	v.stats.count(statForgedProbes, 1)
	return false
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
	s.decided(lb.ReasonForwarded)
	return true
}

// isFullOrLate reports whether a request is refused that another region may have room for.
func isFullOrLate(err error) bool {
	return errors.Is(err, lb.ErrFull) || errors.Is(err, lb.ErrQueueFull) || errors.Is(err, lb.ErrHopeless)
}

// forwardWaiting forwards requests that wait, those that came first before the others, as long as another region has
// room: room there is learned of at any time.
func (w *waiters) forwardWaiting(now time.Duration) {
	for _, s := range w.oldest() {
		if !s.cfg.Regions.Forwards() || !s.isQueued() {
			continue
		}
		forwarded := false
		w.runAs(s.context, "a request for another region", func() {
			if forwarded = s.forward(); forwarded {
				s.Resume()
			}
		}, s.grantRecovered)
		if !forwarded {
			return
		}
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
