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
	"github.com/warmgate/warmgate/plugin/regions"
	"github.com/warmgate/warmgate/plugin/stats"
)

// forwarding is what other regions have to do with a placement: meet is called when the request comes, forward and
// forwardBack when it may go elsewhere, followForwarded and forwardFailed when there is an answer or none.
type forwarding struct {
	regions *regions.Regions // what the VM knows of them
	pl      *placement
	from    string // region that has signed its hop, "" for a client's request
	to      string // region that it was forwarded to, "" for one that is served here
	peer    int    // which of those configured that is
	away    leaving
	why     region.Reason
	had     int // blocks of its prompt that had been forwarded there before
	// when it was forwarded, and whether it is noted what has become of that
	sentAt time.Duration
	ended  bool
	// a retry of the gateway was served at home
	returned bool
	returns  int // how often it has come back from adopted servers
}

// leaving is where a request goes that other regions may have room for.
type leaving int

const (
	stays      leaving = iota
	toGateways         // of another region, which choose a server
	toServers          // of another region: one of them is still to be chosen, here
)

// meet takes in which region has forwarded the request, where regions are configured. What clients send in the header
// never decides.
func (f *forwarding) meet(set *config.Set) {
	pl := f.pl
	homes := set.Regions()
	if len(homes) == 0 {
		return
	}
	pl.Traits.Read(pl.Gateway)
	if hop := pl.Traits.Value(regions.HeaderHop); hop != "" {
		pl.Gateway.RemoveRequestHeader(regions.HeaderHop)
		f.meetHop(homes, hop)
	}
}

// meetHop finds out which region has forwarded the request, if one has.
func (f *forwarding) meetHop(homes []*config.Config, hop string) {
	pl := f.pl
	v := pl.shared
	from := f.regions.Hop(homes, hop, f.hopSubject())
	f.from, pl.wait.forwarded = from.From, from.Forwarded()
	switch {
	case !from.Signed():
		v.Stats.Count(stats.ForgedHops, 1)
	case pl.wait.forwarded:
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
func (f *forwarding) homeScope(set *config.Set, cluster string) string {
	pl := f.pl
	if cluster == "" {
		cluster = pl.Gateway.Cluster()
	}
	if set.Owns(cluster) && !set.IsPeer(cluster) {
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
// most of its prompt is.
func (f *forwarding) forward() leaving {
	pl := f.pl
	if !f.mayLeave() {
		return stays
	}
	plan, prompt, home := &pl.lease.reservation.plan, f.promptToForward(), -1
	if pl.wait.isQueued() && pl.lease.now()-pl.wait.Since < plan.Wait.Patience {
		home = pl.shared.stores.Local.LongestMatch(pl.lease.now(), plan)
	}
	return f.forwardBy(&prompt, f.regions.Of(pl.Config).Matched(pl.lease.now(), &prompt), home)
}

// muchMore is by how much of a prompt another region must have more of it than this one for a request to go there
// although an endpoint here may be open. It is to outweigh the way, and what the servers here have to evict.
const muchMore = 0.25

// forwardBack sends the request to the region that has its prompt, with cached_first, if that has room and the
// endpoints here have much less of it. What endpoints have in Redis is not known here.
func (f *forwarding) forwardBack() leaving {
	pl := f.pl
	if !pl.Config.Regions.CachedFirst || pl.lease.redis != nil || !f.mayLeave() {
		return stays
	}
	plan, prompt := &pl.lease.reservation.plan, f.promptToForward()
	matched := f.regions.Of(pl.Config).Matched(pl.lease.now(), &prompt)
	longest := slices.Max(append(matched, 0))
	if prompt.Fraction(longest) < muchMore {
		return stays
	}
	here := pl.shared.stores.Local.LongestMatch(pl.lease.now(), plan)
	if prompt.Fraction(longest)-prompt.Fraction(here) < muchMore {
		return stays
	}
	return f.forwardBy(&prompt, matched, longest)
}

// mayLeave reports whether the request may be forwarded.
func (f *forwarding) mayLeave() bool {
	pl := f.pl
	away := f.from != "" || f.to != "" || f.returns >= maxReturns
	return pl.Config.Regions.Forwards() && !pl.Config.Shadow && !away && pl.phase < phaseLeased
}

// forwardBy sends the request to another region that has room: see [region.Board.Forward].
func (f *forwarding) forwardBy(prompt *lb.Prefix, matched []int, home int) leaving {
	pl := f.pl
	rules, r := &pl.Config.Regions, &pl.lease.reservation
	h, now := f.regions.Of(pl.Config), pl.lease.now()
	for range len(rules.Peers) + 1 {
		peer, why, adopted := h.Forward(now, matched, home, cmp.Or(pl.Session.Key, r.request.Random))
		if peer == region.None {
			break
		}
		if adopted && !f.findServers(now, h, peer) {
			continue
		}
		pl.leaveHome()
		h.Record(now, prompt, peer)
		if f.peer, f.why, f.away = peer, why, toServers; !adopted {
			if matched != nil {
				f.had = matched[peer]
			}
			f.sentAt = now
			f.forwardTo(h, peer)
		}
		return f.away
	}
	return stays
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

// forwardTo sends the request to the gateways of a peer.
func (f *forwarding) forwardTo(h *regions.Home, peer int) {
	pl := f.pl
	v, rules := pl.shared, &pl.Config.Regions
	to := &rules.Peers[peer]
	f.to, f.away = to.Name, toGateways
	pl.Gateway.SetRequestHeader(regions.HeaderHop, h.SignHop(peer, f.hopSubject()))
	pl.Gateway.Unsteer()
	pl.Gateway.SetCluster(rules.Header, to.Target())
	v.Stats.CountIf(statname.With(stats.Forwarded, "region", to.Name, "reason", f.why.String()), 1)
}

// recall has a request served at home after all, which was about to be forwarded when something failed.
func (f *forwarding) recall() {
	f.pl.Gateway.RemoveRequestHeader(regions.HeaderHop)
	f.goHome()
	f.to, f.away = "", stays // only now: what panics here is recalled once more
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
