package main

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
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/traffic"
)

// Names of the contenders in the last line of the output.
const (
	ownName   = "cross_region"
	localName = "local"
	nine      = " 9" // what the name of a contender ends with that has 9 servers in place of 12
)

// Servers of each region that a contender uses.
const (
	servers = 4
	fewer   = 3
)

// contender is one way to serve the users of all regions.
type contender struct {
	name    string
	central bool                            // one gateway for all, in the first region; else one in each
	policy  func(region int) compare.Policy // of the gateways; unused with a router
	router  *router.Router                  // in the central gateway's place; nil = none
	servers int                             // in each region
	peers   bool                            // the gateways of the regions forward to each other
	on      string                          // the only load on which it is played; "" = all
	asked   bool                            // it is played only if it is named
	added   bool                            // a variant, which the last line does not count among the others
}

func (c contender) title() string { return c.name }

// playedOn reports whether the contender is played on the load.
func (c *contender) playedOn(load string) bool { return c.on == "" || c.on == load }

// contenders returns all, in the order of the table.
//
// Where one gateway serves all, the loads differ only in the way that requests have. So those that are never the best
// of these are played on one.
func contenders() []contender {
	localNine := local(localName+nine, fewer, regional(localName+nine))
	localNine.on, localNine.asked = skewed, true
	return []contender{
		{name: ownName, servers: servers, policy: forwarding(ownName), peers: true},
		{name: ownName + nine, servers: fewer, policy: forwarding(ownName + nine), peers: true, on: skewed},
		local(localName, servers, regional(localName)),
		localNine,
		native(compare.RoundRobin, skewed),
		native(compare.LeastRequest, skewed),
		native(compare.RingHash(scripted.SessionHeader), ""),
		{name: router.VLLM().Name, central: true, router: router.VLLM(), servers: servers},
	}
}

// local is a gateway in each region, for the users and servers there.
func local(name string, servers int, p compare.Policy) contender {
	return contender{name: name, servers: servers, policy: func(int) compare.Policy { return p }}
}

// native is one gateway without a plugin.
func native(p compare.Policy, load string) contender {
	policy := func(int) compare.Policy { return p }
	return contender{name: p.Name, central: true, servers: servers, on: load, policy: policy}
}

// regional is prefix_cache as a region would run it alone: what its servers cannot run at once waits in the gateway.
// Each contender has a secret, and with it an index, of its own: one that has seen the prompts of the contender before
// would know where those went.
func regional(name string) compare.Policy { return prefixCache(name, "") }

// forwarding is the same with the other regions as peers: what no server at home is open for goes to their gateways.
func forwarding(name string) func(region int) compare.Policy {
	return func(region int) compare.Policy {
		var peers []string
		for i, other := range names {
			if i != region {
				peers = append(peers, fmt.Sprintf(`{"name":%q,"cluster":%q,"rtt":"100ms"}`, other, peerCluster(i)))
			}
		}
		return prefixCache(name, fmt.Sprintf(`"regions":{"name":%q,"cluster":"llm","peers":[%s],`+
			`"secret":"bench-regions between gateways","cached_first":true},`, names[region], strings.Join(peers, ",")))
	}
}

// prefixCache is prefix_cache with further members of lb_config. How many requests a server runs at once is known; its
// metrics tell when its memory has room for fewer. Prompts are most of a request's work here, so they are held on
// to: the credit is above its default.
func prefixCache(name, more string) compare.Policy {
	return compare.Policy{
		Name: name, Cluster: harness.Warmgate,
		Plugin: `{"lb_type":"endpoint","lb_policy":"prefix_cache","lb_config":{"push":"pending",` +
			`"max_inflight":` + strconv.Itoa(engine().MaxNumSeqs) + `,"queue":{"max_wait":"50s"},` + more +
			`"envoy":{"admin_cluster":"warmgate-admin","metrics_cluster":"warmgate-metrics"},` +
			`"prefix":{"credit":10,"secret":"bench-regions-` + strings.ReplaceAll(name, " ", "-") + `"},"debug_headers":true}}`,
	}
}

func (c *contender) describe() string {
	where := fmt.Sprintf("a gateway in each region, with %d servers: ", c.servers)
	if c.central {
		where = fmt.Sprintf("one gateway, in %s, with all %d servers: ", names[0], c.servers*regions)
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
	used, err := bench.Use(st.gateways(), func() { samples = playAll(ctx, &players, users, scripts) })
	if err != nil {
		return r, err
	}
	after, err := st.forwarded(ctx)
	if err != nil {
		return r, err
	}
	r = resultOf(samples, scripted.Window{From: s.warm, To: s.warm + s.span}, st)
	r.cpu, r.forwarded = used, after.since(before)
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

// rest is for how long after the last request is sent those under way may end. Then they are cut off, since the longest
// answers take as long as what is measured.
const rest = 5 * time.Second

// cutOff makes requests that were cut off such that ended then. One whose answer had not begun by then counts as if it
// had: it cannot be left out, since the longest waits would be. What would have followed is left out.
func cutOff(samples []loadgen.Sample, cut time.Duration) []loadgen.Sample {
	wasCut := func(s *loadgen.Sample) bool { return !s.OK() && s.Due+s.Total >= cut }
	samples = slices.DeleteFunc(samples, func(s loadgen.Sample) bool {
		return wasCut(&s) && s.Error == loadgen.ErrNotSent
	})
	for i := range samples {
		if s := &samples[i]; wasCut(s) {
			s.Error, s.Detail, s.TTFT = "", "", cmp.Or(s.TTFT, s.Total)
		}
	}
	return samples
}

// playAll plays the scripts of all regions side by side, and returns the samples by region.
func playAll(ctx context.Context, players *[regions]scripted.Player, users [regions]int,
	scripts [regions][]traffic.Script,
) (samples [regions][]loadgen.Sample) {
	cut := players[0].Until + rest
	ctx, cancel := context.WithTimeout(ctx, cut)
	defer cancel()
	var wg sync.WaitGroup
	for i := range players {
		wg.Add(1)
		go func() {
			defer wg.Done()
			samples[i] = cutOff(players[i].Play(ctx, scripts[i], users[i]), cut)
		}()
	}
	wg.Wait()
	return samples
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
