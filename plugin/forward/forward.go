// Package forward is what other regions have to do with a request: which one has forwarded it, which one it is sent to
// in place of an endpoint here, and what has become of that. It knows the request's placement, and nothing of what acts
// on what it returns.
package forward

import (
	"cmp"
	"errors"
	"slices"
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
	staying region.Staying
	returns int // how often it has come back from adopted servers
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
	if hop, ok := regions.Texts(regions.HopHeaders, pl.Traits.Value); ok {
		f.removeHop()
		f.meetHop(homes, hop)
	}
}

// removeHop removes what shows that the request was forwarded.
func (f *Forwarding) removeHop() {
	for _, name := range regions.HopHeaders {
		f.pl.Gateway.RemoveRequestHeader(name)
	}
}

// meetHop finds out which region has forwarded the request, if one has.
func (f *Forwarding) meetHop(homes []*config.Config, hop region.Texts) {
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
// room: to its gateways, or to its servers where those are adopted. A request that waits stays for where most of its
// prompt is, as long as that saves time: see [region.Stay].
func (f *Forwarding) Forward() Leaving {
	pl := f.pl
	if !f.mayLeave() {
		return Stays
	}
	plan, prompt, now := &pl.Lease.Reservation.Plan, f.promptToForward(), pl.Lease.Now()
	waits := pl.Wait.IsQueued() && !pl.Wait.IsUnplanned() // what nothing here can serve goes anywhere
	stay := f.staying.Of(now, plan, now-pl.Wait.Since, waits, f.atHome)
	return f.forwardBy(&prompt, f.regions.Of(pl.Config).Matched(now, &prompt), stay)
}

// Awaits reports whether a request for which nothing is healthy here waits for another region, while one answers where
// it may go. One that waits so already goes on.
func (f *Forwarding) Awaits() bool {
	c := f.pl.Config
	return c.Queue.Enabled() && f.mayLeave() && (f.pl.Wait.IsUnplanned() || f.regions.Of(c).Answers())
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
	return f.forwardBy(&prompt, matched, region.Stay{Home: longest})
}

// mayLeave reports whether the request may be forwarded.
func (f *Forwarding) mayLeave() bool {
	pl := f.pl
	return pl.Config.Regions.Forwards() && !pl.Config.Shadow && !pl.Trial && !pl.Wait.Stays && f.To == "" &&
		pl.Phase < placement.PhaseLeased && pl.Lease.Reservation.Request.Subset == nil // which is of endpoints here
}

// forwardBy sends the request to another region that has room: see [region.Board.Forward].
func (f *Forwarding) forwardBy(prompt *lb.Prefix, matched []int, stay region.Stay) Leaving {
	pl := f.pl
	rules, r := &pl.Config.Regions, &pl.Lease.Reservation
	h, now := f.regions.Of(pl.Config), pl.Lease.Now()
	for range len(rules.Peers) + 1 {
		peer, why, adopted := h.Forward(now, region.Request{
			Matched: matched, Session: cmp.Or(pl.Session.Key, r.Request.Random),
			Sticky: pl.Session.Key != 0 && pl.Config.KeepsSessions(), Stay: stay, Allowed: f.allowed(),
		})
		if peer == region.None {
			f.staying.Note(now, why)
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

// allowed returns the regions where the request may go, nil for all: not to one that has not its model.
func (f *Forwarding) allowed() []string {
	rules := &f.pl.Config.Regions
	names, all := make([]string, 0, len(rules.Peers)), true
	for i := range rules.Peers {
		name := rules.Peers[i].Name
		switch {
		case f.pl.Facts.IsAbsentIn(name):
			all = false
		case rules.Allowed == nil || slices.Contains(rules.Allowed, name):
			names = append(names, name)
		}
	}
	if all {
		return rules.Allowed
	}
	return names
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
	for _, header := range h.SignHop(peer, f.hopSubject()) {
		pl.Gateway.SetRequestHeader(header[0], header[1])
	}
	pl.Gateway.Unsteer()
	pl.Gateway.SetCluster(rules.Header, to.Target())
	v.Stats.CountIf(statname.With(stats.Forwarded, "region", to.Name, "reason", f.why.String()), 1)
}

// IsAway reports whether the request goes to another region, or to the servers of one.
func (f *Forwarding) IsAway() bool { return f.To != "" }

// Recall has a request served at home after all, which was about to be forwarded when something failed.
func (f *Forwarding) Recall() {
	f.removeHop()
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
