package regions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/bench/router"
	"github.com/warmgate/warmgate/e2e/bench/scripted"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/traffic"
)

// Names of the contenders in the last line of the output.
const (
	ownName   = "cross_region"
	localName = "local"
	idealName = "ideal"
	byUser    = "cross_region by session"
	nine      = " 9"        // what the name of a contender ends with that has 9 servers in place of 12
	eight     = " 3/3/2"    // … that has 8
	defaults  = " defaults" // … for which nothing was tuned
	tuned     = " tuned"    // … for which something was, where others of its kind have their defaults
)

// fleet is how many servers of each region a contender uses.
type fleet [regions]int

func (f fleet) all() (n int) {
	for _, of := range f {
		n += of
	}
	return n
}

const servers = 4 // that a region has

var (
	twelve = fleet{servers, servers, servers}
	ofNine = fleet{3, 3, 3}
	// ofEight is a fleet of regions that differ.
	ofEight = fleet{3, 3, 2}
)

// contender is one way to serve the users of all regions.
type contender struct {
	name    string
	central bool                            // one gateway for all, in the first region; else one in each
	policy  func(region int) compare.Policy // of the gateways; unused with a router
	router  *router.Router                  // in the central gateway's place; nil = none
	servers fleet
	peers   bool   // the gateways of the regions forward to each other
	near    bool   // the central gateway is near all users and servers
	on      string // the only load or cell where it is played unless it is named; "" = all
	asked   bool   // it is played only if it is named
	added   bool   // the ideal or a variant, not among the others of the last line
}

func (c contender) title() string { return c.name }

// playedOn reports whether the contender is played in a cell.
func (c *contender) playedOn(at *cell) bool { return c.on == "" || c.on == at.load || c.on == at.key() }

// contenders returns all, in the order of the table, for regions that are so far apart.
//
// Where time allows no more, those that no target is compared with are played where sharing has most to gain.
func contenders(rtt time.Duration) []contender {
	asShipped := forwarding(ownName+defaults, rtt, tuning{})
	return []contender{
		{name: ownName, servers: twelve, policy: forwarding(ownName, rtt, byHand), peers: true},
		{name: ownName + nine, servers: ofNine, policy: forwarding(ownName+nine, rtt, byHand), peers: true, on: skewed},
		{name: ownName + defaults, servers: twelve, policy: asShipped, peers: true, added: true},
		{
			name: ownName + eight, servers: ofEight, policy: forwarding(ownName+eight, rtt, byHand), peers: true,
			asked: true,
		},
		{name: byUser, servers: twelve, policy: bySession(rtt), peers: true},
		local(localName, twelve, regional(localName)),
		{
			name: localName + nine, servers: ofNine, policy: everywhere(regional(localName + nine)), on: skewed,
			asked: true,
		},
		{name: localName + eight, servers: ofEight, policy: everywhere(regional(localName + eight)), asked: true},
		native(compare.RoundRobin),
		native(compare.LeastRequest),
		native(compare.FullScan),
		native(compare.RingHash(scripted.SessionHeader)),
		native(compare.BoundedRingHash(scripted.SessionHeader)),
		behindRouter(router.VLLM(), ""),
		behindRouter(router.VLLM(), tuned, "--balance-abs-threshold", strconv.Itoa(engine().MaxNumSeqs/2)),
		behindRouter(router.SGLang(), ""),
		behindRouter(router.SGLang(), tuned, "--balance-abs-threshold", strconv.Itoa(engine().MaxNumSeqs/2)),
		ideal(),
	}
}

// local is a gateway in each region, for the users and servers there.
func local(name string, servers fleet, p compare.Policy) contender {
	return contender{name: name, servers: servers, policy: everywhere(p)}
}

// everywhere has all regions do the same.
func everywhere(p compare.Policy) func(region int) compare.Policy {
	return func(int) compare.Policy { return p }
}

// native is one gateway without a plugin.
func native(p compare.Policy) contender {
	return contender{name: p.Name, central: true, servers: twelve, policy: everywhere(p)}
}

// behindRouter is another project's router in the central gateway's place. By default both even out servers that are 64
// requests apart, more than three times as many as these run at once.
func behindRouter(r *router.Router, suffix string, arguments ...string) contender {
	r.Tuned = arguments
	return contender{name: r.Name + suffix, central: true, router: r, servers: twelve}
}

// ideal is what regions could do if distance were nothing: one gateway that knows of all requests and prompts.
func ideal() contender {
	return contender{
		name: idealName, central: true, near: true, servers: twelve, added: true, on: skewed,
		policy: everywhere(regional(idealName)),
	}
}

// regional is prefix_cache as a region would run it alone: what its servers cannot run at once waits in the gateway.
// Each contender has a secret, and with it an index, of its own: one that has seen the prompts of the contender before
// would know where those went.
func regional(name string) compare.Policy { return prefixCache(name, "", byHand) }

// tuning are members of the configuration that this benchmark was played to choose.
type tuning struct{ prefix, regions string }

// byHand holds on to prompts, which are most of a request's work here.
var byHand = tuning{prefix: `"credit":10,`, regions: `,"cached_first":true`}

// forwarding is the same with the other regions as peers: what no server at home is open for goes to their gateways.
func forwarding(name string, rtt time.Duration, t tuning) func(region int) compare.Policy {
	return func(region int) compare.Policy { return prefixCache(name, peersOf(region, rtt, t.regions), t) }
}

// bySession is the other way of the publication that cross-region balancing comes from, SkyLB-CH: servers by a
// consistent hash of the session, and regions too, if none at home is open.
func bySession(rtt time.Duration) func(region int) compare.Policy {
	return func(region int) compare.Policy {
		return compare.Plugin(byUser, "consistent_hash", asMuchAsRuns+`"session":{"key":["header:`+
			scripted.SessionHeader+`"]},`+peersOf(region, rtt, ""), compare.ByMetrics)
	}
}

// peersOf is the member of lb_config that has all other regions as a region's peers, with further members of its own.
func peersOf(region int, rtt time.Duration, more string) string {
	var peers []string
	for i, other := range names {
		if i != region {
			peers = append(peers, fmt.Sprintf(`{"name":%q,"cluster":%q,"rtt":"%dms"}`, other, peerCluster(i),
				rtt.Milliseconds()))
		}
	}
	return fmt.Sprintf(`"regions":{"name":%q,"cluster":"llm","peers":[%s],`+
		`"secret":"bench-regions between gateways"%s},`, names[region], strings.Join(peers, ","), more)
}

// asMuchAsRuns has requests wait in the gateway that a server could not run at once: how many it runs is known, and its
// metrics tell when its memory has room for fewer.
var asMuchAsRuns = fmt.Sprintf(`"push":"pending","max_inflight":%d,"queue":{"max_wait":"50s"},`, engine().MaxNumSeqs)

// prefixCache is prefix_cache with further members of lb_config.
func prefixCache(name, more string, t tuning) compare.Policy {
	return compare.Plugin(name, "prefix_cache", asMuchAsRuns+more+`"prefix":{`+t.prefix+`"secret":"bench-regions-`+
		strings.NewReplacer(" ", "-", "/", "-").Replace(name)+`"},`, compare.ByMetrics)
}

func (c *contender) describe() string {
	where := fmt.Sprintf("a gateway in each region, with %v servers: ", c.servers)
	switch {
	case c.near:
		where = fmt.Sprintf("no rival: one gateway, without delay from users and all %d servers: ", c.servers.all())
	case c.central:
		where = fmt.Sprintf("one gateway, in %s, with all %d servers: ", names[0], c.servers.all())
	}
	if c.router != nil {
		return where + c.router.Describe()
	}
	return where + c.policy(0).Describe()
}

// patience of the clients: longer than any wait.
const patience = 2 * time.Minute

// play has the contender serve a cell's users, with what they send by region, for as long as the settings say. The
// caches and counts of the servers are emptied before.
func (c *contender) play(ctx context.Context, st *stage, s *settings, users [regions]int,
	scripts [regions][]traffic.Script,
) (r result, err error) {
	at, err := st.begin(ctx, c)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, at.stop()) }()
	var players [regions]scripted.Player
	for i := range players {
		client := loadgen.NewClient(loadgen.Options{
			URL: at.urls[i] + compare.Path, KeepHeaders: compare.DebugHeaders, Timeout: patience,
			Fresh: c.router != nil && c.router.Fresh,
		})
		defer client.Close()
		players[i] = scripted.Player{Client: client, Until: s.warm + s.span}
	}
	if err := warmUp(ctx, &players); err != nil {
		return r, fmt.Errorf("%w\n%s", err, at.log())
	}
	if c.peers {
		if err := st.awaitPeers(ctx); err != nil {
			return r, err
		}
	}
	st.reset()
	before, err := st.forwarded(ctx)
	if err != nil {
		return r, err
	}
	var samples [regions][]loadgen.Sample
	var cut unanswered
	used, err := bench.Use(st.gateways(), func() { samples, cut = playAll(ctx, &players, users, scripts) })
	if err != nil {
		return r, err
	}
	after, err := st.forwarded(ctx)
	if err != nil {
		return r, err
	}
	r = resultOf(samples, scripted.Window{From: s.warm, To: s.warm + s.span}, st)
	r.cpu, r.forwarded, r.unanswered = used, after.since(before), cut
	if err := ctx.Err(); err != nil {
		return r, err
	}
	return r, errors.Join(c.steered(samples), enough(&players))
}

// warmUp has each region be answered a few times.
func warmUp(ctx context.Context, players *[regions]scripted.Player) error {
	return bench.SideBySide(ctx, regions, regions, func(ctx context.Context, _, i int) error {
		if err := scripted.WarmUp(ctx, players[i].Client, false, 2*servers); err != nil {
			return fmt.Errorf("%s: %w", names[i], err)
		}
		return nil
	})
}

// steered returns an error if a gateway with the plugin did not choose who answered.
func (c *contender) steered(samples [regions][]loadgen.Sample) error {
	if c.router != nil {
		return nil
	}
	for i := range samples {
		p := c.policy(i)
		answered := slices.DeleteFunc(slices.Clone(samples[i]), func(s loadgen.Sample) bool { return s.Status == 0 })
		if err := p.Steered(answered); err != nil {
			return fmt.Errorf("%s: %w", names[i], err)
		}
	}
	return nil
}

// enough returns an error if the users of a region have sent all there was: then the region was not busy to the end.
func enough(players *[regions]scripted.Player) error {
	for i := range players {
		if p := &players[i]; p.Begins[len(p.Begins)-1] < p.Until {
			return fmt.Errorf("%s: all %d scripts were begun before the end", names[i], len(p.Begins))
		}
	}
	return nil
}

// rest is for how long after the last request is sent those under way may end. Then they are cut off, since the longest
// answers take as long as what is measured.
const rest = 5 * time.Second

// tooLong is for how long a request that is cut off without a token of its answer may have waited.
const tooLong = 20 * time.Second

// unanswered are the requests of a run that were cut off without a token of their answers.
type unanswered struct {
	all  int
	long int // of these, those sent more than tooLong before
}

func (u unanswered) add(more unanswered) unanswered {
	return unanswered{u.all + more.all, u.long + more.long}
}

// playAll plays the scripts of all regions side by side, and returns the samples by region.
func playAll(ctx context.Context, players *[regions]scripted.Player, users [regions]int,
	scripts [regions][]traffic.Script,
) (samples [regions][]loadgen.Sample, all unanswered) {
	cut := players[0].Until + rest
	ctx, cancel := context.WithTimeout(ctx, cut)
	defer cancel()
	var wg sync.WaitGroup
	var by [regions]unanswered
	for i := range players {
		wg.Add(1)
		go func() {
			defer wg.Done()
			samples[i], by[i] = cutOff(players[i].Play(ctx, scripts[i], users[i]), cut)
		}()
	}
	wg.Wait()
	for _, u := range by {
		all = all.add(u)
	}
	return samples, all
}

// around is within what time of the cut a request ends that was cut off: clocks start one after another, and a machine
// with much to do is late.
const around = 100 * time.Millisecond

// cutOff makes requests that were cut off such that ended then. One without a token of its answer by then counts as if
// it had come: it cannot be left out, since the longest waits would be. What would have followed is left out.
func cutOff(samples []loadgen.Sample, cut time.Duration) (ended []loadgen.Sample, u unanswered) {
	wasCut := func(s *loadgen.Sample, kinds ...string) bool {
		return slices.Contains(kinds, s.Error) && s.Due+s.Total >= cut-around
	}
	samples = slices.DeleteFunc(samples, func(s loadgen.Sample) bool { return wasCut(&s, loadgen.ErrNotSent) })
	for i := range samples {
		s := &samples[i]
		if !wasCut(s, loadgen.ErrTimeout, loadgen.ErrCanceled) {
			continue
		}
		if s.TTFT == 0 {
			u.all++
			if s.Total > tooLong {
				u.long++
			}
		}
		s.Error, s.Detail, s.TTFT = "", "", cmp.Or(s.TTFT, s.Total)
	}
	return samples, u
}
