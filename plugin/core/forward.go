package core

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/warmgate/warmgate/internal/statname"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/region"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/stats"
)

// forwarding is what other regions have to do with a placement. That asks it by a few methods alone: meet when the
// request comes, forward and forwardBack when it may go elsewhere, followForwarded and forwardFailed when there is an
// answer or none.
type forwarding struct {
	pl   *choice
	from string // region that has signed its hop, "" for a client's request
	here bool   // that has forwarded it to this one, just now
	to   string // region that it was forwarded to, "" for one that is served here
	why  region.Reason
	had  int // blocks of its prompt that had been forwarded there before
	// when it was forwarded, and whether it is noted what has become of that
	sentAt time.Duration
	ended  bool
	// a retry of the gateway was served at home
	returned bool
	returns  int // how often it has come back from adopted servers
}

// meet does what has to be done with a request before it is decided, where regions are configured: the probe of
// another region is answered, and then nothing else is done. What clients send in headers of regions never decides.
func (f *forwarding) meet() (a host.Action, answered bool) {
	pl := f.pl
	homes := pl.plugin.set.Regions()
	if len(homes) == 0 {
		return host.Proceed, false
	}
	pl.Traits.Read(pl.Gateway)
	if probe := pl.Traits.Value(headerProbe); probe != "" && pl.Traits.Value(":path") == probePath {
		if a, answered = f.answerProbe(homes, probe); answered {
			return a, true
		}
	}
	if hop := pl.Traits.Value(headerHop); hop != "" {
		pl.Gateway.RemoveRequestHeader(headerHop)
		f.meetHop(homes, hop)
	}
	return host.Proceed, false
}

// answerProbe has the probe of another region answered, unless it is a stranger's.
func (f *forwarding) answerProbe(homes []*config.Config, probe string) (a host.Action, answered bool) {
	pl := f.pl
	p := &probeAnswer{
		s: pl.Gateway, context: pl.Context, regions: pl.plugin.vm.regions,
		rulesOf: pl.plugin.set.RulesOf, balance: func() host.Action { return pl.pass(lb.ReasonPanic) }, open: true,
	}
	pl.stream.answer = p
	if a, answered = p.answer(homes, probe); !answered {
		pl.stream.answer = nil
	}
	return a, answered
}

// meetHop finds out which region has forwarded the request, if one has.
func (f *forwarding) meetHop(homes []*config.Config, hop string) {
	v := f.pl.plugin.vm
	var from region.Hop
	for _, c := range homes {
		h := v.regions.of(c).key.ReadHop(hop, c.Regions.Name, v.GW.Wall(), f.hopSubject())
		if h.Signed() && (h.Odd == nil || !from.Signed()) {
			from = h
		}
	}
	f.from, f.here = from.From, from.Forwarded()
	switch {
	case !from.Signed():
		v.Stats.Count(stats.ForgedHops, 1)
	case f.here:
		v.Stats.CountIf(statname.With(stats.ServedFor, "region", from.From), 1)
	case errors.Is(from.Odd, region.ErrStale):
		v.Stats.CountIf(statname.With(stats.OddHops, "cause", "late"), 1)
	default:
		v.Stats.CountIf(statname.With(stats.OddHops, "cause", "elsewhere"), 1)
	}
}

// hopSubject is what both gateways see of a forwarded request.
func (f *forwarding) hopSubject() string {
	return f.pl.Traits.Value(":method") + " " + f.pl.Traits.Value(":path")
}

// homeScope routes a request to this region's own servers, and returns their cluster: unless the route, which has led
// to the given cluster if that is known, leads to one by which the plugin makes calls. What another region has
// forwarded may have come with the name of a peer's cluster in the header, and gateways go on reporting that.
func (f *forwarding) homeScope(cluster string) string {
	pl := f.pl
	if cluster == "" {
		cluster = pl.routedTo()
	}
	if set := pl.plugin.set; set.Owns(cluster) && !set.IsPeer(cluster) {
		return cluster
	}
	f.goHome()
	return pl.Config.Regions.Cluster
}

// goHome routes the request to this region's own servers.
func (f *forwarding) goHome() {
	f.pl.Gateway.SetCluster(f.pl.Config.Regions.Header, f.pl.Config.Regions.Cluster)
}

// forward sends the request to another region, if none of this one's endpoints is open for it and one of the others has
// room: to its gateways, or to its servers where those are adopted. While a request has patience, it waits for where
// most of its prompt is. It reports whether it has sent it, and returns what becomes of the request then.
func (f *forwarding) forward() (a host.Action, forwarded bool) {
	pl := f.pl
	if !f.mayLeave() {
		return host.Stop, false
	}
	plan, prompt, home := &pl.lease.reservation.plan, f.promptToForward(), -1
	if pl.wait.isQueued() && pl.lease.now()-pl.wait.since < plan.Wait.Patience {
		home = pl.plugin.vm.stores.Local.LongestMatch(pl.lease.now(), plan)
	}
	return f.forwardBy(&prompt, f.matchedAway(&prompt), home)
}

// muchMore is by how much of a prompt another region must have more of it than this one for a request to go there
// although an endpoint here may be open. It is to outweigh the way, and what the servers here have to evict.
const muchMore = 0.25

// forwardBack sends the request to the region that has its prompt, with cached_first, if that has room and the
// endpoints here have much less of it. It returns what forward does. What endpoints have in Redis is not known here.
func (f *forwarding) forwardBack() (a host.Action, forwarded bool) {
	pl := f.pl
	if !pl.Config.Regions.CachedFirst || pl.lease.redis != nil || !f.mayLeave() {
		return host.Stop, false
	}
	plan, prompt := &pl.lease.reservation.plan, f.promptToForward()
	matched := f.matchedAway(&prompt)
	longest := slices.Max(append(matched, 0))
	if prompt.Fraction(longest) < muchMore {
		return host.Stop, false
	}
	here := pl.plugin.vm.stores.Local.LongestMatch(pl.lease.now(), plan)
	if prompt.Fraction(longest)-prompt.Fraction(here) < muchMore {
		return host.Stop, false
	}
	return f.forwardBy(&prompt, matched, longest)
}

// mayLeave reports whether the request may be forwarded.
func (f *forwarding) mayLeave() bool {
	pl := f.pl
	away := f.from != "" || f.to != "" || f.returns >= maxReturns
	return pl.Config.Regions.Forwards() && !pl.Config.Shadow && !away && pl.phase < phaseLeased
}

// matchedAway returns how many leading blocks of the prompt each of the other regions was sent.
func (f *forwarding) matchedAway(prompt *lb.Prefix) []int {
	pl := f.pl
	if !prompt.NeedsLookup() {
		return nil
	}
	h := pl.plugin.vm.regions.of(pl.Config)
	return h.snapshot.Match(pl.lease.now(), prompt, h.board.Config().Peers)
}

// forwardBy sends the request to another region that has room: see [region.Board.Forward].
func (f *forwarding) forwardBy(prompt *lb.Prefix, matched []int, home int) (a host.Action, forwarded bool) {
	pl := f.pl
	rules, r := &pl.Config.Regions, &pl.lease.reservation
	h, now := pl.plugin.vm.regions.of(pl.Config), pl.lease.now()
	for range len(rules.Peers) + 1 {
		peer, why := h.board.Forward(now, matched, home, cmp.Or(pl.Session.Key, r.request.Random), rules.Allowed)
		if peer == region.None {
			break
		}
		adopted := h.board.Adopted(peer)
		if adopted && !f.findServers(now, h, peer) {
			continue
		}
		f.leave()
		if prompt.NeedsLookup() {
			h.snapshot.Record(now, prompt, &h.board.Config().Peers[peer])
		}
		if adopted {
			return f.adopt(peer, why), true
		}
		if matched != nil {
			f.had = matched[peer]
		}
		f.sentAt = now
		f.forwardTo(h, peer, why)
		return host.Proceed, true
	}
	return host.Stop, false
}

// promptToForward returns the prompt of the request as it was planned; as far as it is known, of one without a plan.
func (f *forwarding) promptToForward() lb.Prefix {
	pl := f.pl
	prompt := pl.lease.reservation.plan.Prefix
	if c := pl.Prompt.Chain; len(prompt.Blocks) == 0 && c.HasBlocks() {
		prompt = lb.Prefix{Blocks: c.Blocks, Bytes: c.Length, TTL: pl.Config.Prefix.TTL}
	}
	return prompt
}

// leave ends what the request has to do with the endpoints at home.
func (f *forwarding) leave() {
	pl := f.pl
	if w := &pl.wait; w.queued || pl.wait.isQueued() {
		w.queued, w.waited = true, pl.lease.now()-w.since
	}
	if pl.phase == phaseReserving {
		pl.release()
		return
	}
	pl.enter(phaseUncounted)
}

// forwardTo sends the request to the gateways of a peer.
func (f *forwarding) forwardTo(h *home, peer int, why region.Reason) {
	pl := f.pl
	v, rules := pl.plugin.vm, &pl.Config.Regions
	to := &rules.Peers[peer]
	f.to, f.why = to.Name, why
	pl.Gateway.SetRequestHeader(headerHop, h.key.SignHop(rules.Name, to.Name, v.GW.Wall(), f.hopSubject()))
	pl.Gateway.Unsteer()
	pl.Gateway.SetCluster(rules.Header, to.Target())
	v.Stats.CountIf(statname.With(stats.Forwarded, "region", to.Name, "reason", why.String()), 1)
	pl.wait.countPlaced()
	pl.decided(lb.ReasonForwarded)
}

// recall has a request served at home after all, which was about to be forwarded when something failed.
func (f *forwarding) recall() {
	f.pl.Gateway.RemoveRequestHeader(headerHop)
	f.goHome()
	f.to = "" // only now: what panics here is recalled once more
}

// isFullOrLate reports whether a request is refused that another region may have room for.
func isFullOrLate(err error) bool {
	return errors.Is(err, lb.ErrFull) || errors.Is(err, lb.ErrQueueFull) || errors.Is(err, lb.ErrEvicted) ||
		errors.Is(err, lb.ErrHopeless)
}

// text returns where the request was forwarded, or from where, for the access log.
func (f *forwarding) text() string {
	switch {
	case f.returned:
		return " region=" + f.to + " why=" + f.why.String() + " returned=yes"
	case f.to != "":
		return " region=" + f.to + " why=" + f.why.String()
	case f.from != "":
		return " from=" + f.from
	}
	return ""
}
