// Package forward is what other regions have to do with a request: which one has forwarded it, which one it is sent to
// in place of an endpoint here, and what has become of that. It knows the request's placement, and nothing of what acts
// on what it returns.
package forward

import (
	"cmp"
	"errors"
	"time"

	"github.com/warmgate/warmgate/internal/statname"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/region"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/placement"
	"github.com/warmgate/warmgate/plugin/regions"
	"github.com/warmgate/warmgate/plugin/stats"
)

// Forwarding is what other regions have to do with a placement: Meet and HomeScope are called when the request comes,
// Forward and ForwardBack when it may go elsewhere, Recall and ComeHome when it is served at home after all, Follow
// when the response begins, and Failed when the request ends without one.
type Forwarding struct {
	To       string // region that it was forwarded to, "" for one that is served here
	Returned bool   // a retry of the gateway was served at home

	regions *regions.Regions // what the VM knows of them
	pl      *placement.Placement
	from    string // region that has signed its hop, "" for a client's request
	peer    int    // which of those configured it goes to
	away    Leaving
	why     region.Reason
	had     int           // blocks of its prompt that had been forwarded there before
	sentAt  time.Duration // when it was forwarded
	ended   bool          // it is noted what has become of that
	returns int           // how often it has come back from adopted servers
}

// New returns what other regions, as the VM knows them, have to do with a placement.
func New(of *placement.Placement, known *regions.Regions) Forwarding {
	return Forwarding{pl: of, regions: known}
}

// Leaving is where a request goes that other regions may have room for.
type Leaving int

// A request stays here, or leaves.
const (
	Stays      Leaving = iota
	ToGateways         // of another region, which choose a server
	ToServers          // of another region: one of them is still to be chosen, here
)

// Meet takes in which region has forwarded the request, where the set of configurations names regions. What clients
// send in the header never decides.
func (f *Forwarding) Meet(set *config.Set) {
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
func (f *Forwarding) meetHop(homes []*config.Config, hop string) {
	pl := f.pl
	v := pl.Shared
	from := f.regions.Hop(homes, hop, f.hopSubject())
	f.from, pl.Wait.Forwarded = from.From, from.Forwarded()
	pl.Wait.Stays = f.from != ""
	switch {
	case !from.Signed():
		v.Stats.Count(stats.ForgedHops, 1)
	case pl.Wait.Forwarded:
		v.Stats.CountIf(statname.With(stats.ServedFor, "region", from.From), 1)
	case errors.Is(from.Odd, region.ErrStale):
		v.Stats.CountIf(statname.With(stats.OddHops, "cause", "late"), 1)
	default:
		v.Stats.CountIf(statname.With(stats.OddHops, "cause", "elsewhere"), 1)
	}
}

// hopSubject is what both gateways see of a forwarded request.
func (f *Forwarding) hopSubject() string {
	return f.pl.Traits.Value(":method") + " " + f.pl.Traits.Value(":path")
}

// HomeScope routes a request to this region's own servers, and returns their cluster: unless the route, which has led
// to the given cluster if that is known, leads to one by which the plugin makes calls. What another region has
// forwarded may have come with the name of a peer's cluster in the header, and gateways go on reporting that.
func (f *Forwarding) HomeScope(set *config.Set, cluster string) string {
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
func (f *Forwarding) goHome() {
	f.pl.Gateway.SetCluster(f.pl.Config.Regions.Header, f.pl.Config.Regions.Cluster)
}

// Forward sends the request to another region, if none of this one's endpoints is open for it and one of the others has
// room: to its gateways, or to its servers where those are adopted. While a request has patience, it waits for where
// most of its prompt is.
func (f *Forwarding) Forward() Leaving {
	pl := f.pl
	if !f.mayLeave() {
		return Stays
	}
	plan, prompt, home := &pl.Lease.Reservation.Plan, f.promptToForward(), -1
	if pl.Wait.IsQueued() {
		home = region.AtHome(pl.Lease.Now()-pl.Wait.Since, plan.Wait.Patience, f.atHome)
	}
	return f.forwardBy(&prompt, f.regions.Of(pl.Config).Matched(pl.Lease.Now(), &prompt), home)
}

// atHome returns how many blocks of the prompt the endpoints here have. What they have in Redis is not known here.
func (f *Forwarding) atHome() int {
	l := &f.pl.Lease
	return f.pl.Shared.Stores.Local.LongestMatch(l.Now(), &l.Reservation.Plan)
}

// ForwardBack sends the request to the region that has its prompt, with cached_first, if that has room and the
// endpoints here have much less of it.
func (f *Forwarding) ForwardBack() Leaving {
	pl := f.pl
	if !pl.Config.Regions.CachedFirst || pl.Lease.Redis != nil || !f.mayLeave() {
		return Stays
	}
	prompt := f.promptToForward()
	matched := f.regions.Of(pl.Config).Matched(pl.Lease.Now(), &prompt)
	longest, leaves := region.HasMuchMore(&prompt, matched, f.atHome)
	if !leaves {
		return Stays
	}
	return f.forwardBy(&prompt, matched, longest)
}

// mayLeave reports whether the request may be forwarded.
func (f *Forwarding) mayLeave() bool {
	pl := f.pl
	return pl.Config.Regions.Forwards() && !pl.Config.Shadow && !pl.Trial && !pl.Wait.Stays && f.To == "" &&
		pl.Phase < placement.PhaseLeased
}

// forwardBy sends the request to another region that has room: see [region.Board.Forward].
func (f *Forwarding) forwardBy(prompt *lb.Prefix, matched []int, home int) Leaving {
	pl := f.pl
	rules, r := &pl.Config.Regions, &pl.Lease.Reservation
	h, now := f.regions.Of(pl.Config), pl.Lease.Now()
	for range len(rules.Peers) + 1 {
		peer, why, adopted := h.Forward(now, matched, home, cmp.Or(pl.Session.Key, r.Request.Random))
		if peer == region.None {
			break
		}
		if adopted && !f.findServers(now, h, peer) {
			continue
		}
		pl.LeaveHome()
		h.Record(now, prompt, peer)
		f.peer, f.why = peer, why
		if adopted {
			f.away = ToServers
			pl.Shared.Stats.CountIf(statname.With(stats.AtAdopted, "region", f.To, "reason", why.String()), 1)
			return f.away
		}
		if matched != nil {
			f.had = matched[peer]
		}
		f.sentAt = now
		f.forwardTo(h, peer)
		return f.away
	}
	return Stays
}

// promptToForward returns the prompt of the request as it was planned; as far as it is known, of one without a plan.
func (f *Forwarding) promptToForward() lb.Prefix {
	pl := f.pl
	prompt := pl.Lease.Reservation.Plan.Prefix
	if c := pl.Prompt.Chain; len(prompt.Blocks) == 0 && c.HasBlocks() {
		prompt = lb.Prefix{Blocks: c.Blocks, Bytes: c.Length, TTL: pl.Config.Prefix.TTL}
	}
	return prompt
}

// forwardTo sends the request to the gateways of a peer.
func (f *Forwarding) forwardTo(h *regions.Home, peer int) {
	pl := f.pl
	v, rules := pl.Shared, &pl.Config.Regions
	to := &rules.Peers[peer]
	f.To, f.away = to.Name, ToGateways
	pl.Gateway.SetRequestHeader(regions.HeaderHop, h.SignHop(peer, f.hopSubject()))
	pl.Gateway.Unsteer()
	pl.Gateway.SetCluster(rules.Header, to.Target())
	v.Stats.CountIf(statname.With(stats.Forwarded, "region", to.Name, "reason", f.why.String()), 1)
}

// IsAway reports whether the request goes to another region, or to the servers of one.
func (f *Forwarding) IsAway() bool { return f.To != "" }

// Recall has a request served at home after all, which was about to be forwarded when something failed.
func (f *Forwarding) Recall() {
	f.pl.Gateway.RemoveRequestHeader(regions.HeaderHop)
	f.goHome()
	f.To, f.away = "", Stays // only now: what panics here is recalled once more
}

// AppendText appends to a line of the access log where the request was forwarded, or from where.
func (f *Forwarding) AppendText(line []byte) []byte {
	switch {
	case f.Returned, f.To != "":
		line = append(append(line, " region="...), f.To...)
		line = append(append(line, " why="...), f.why.String()...)
		if f.Returned {
			line = append(line, " returned=yes"...)
		}
	case f.from != "":
		line = append(append(line, " from="...), f.from...)
	}
	return line
}
