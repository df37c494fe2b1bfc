package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmgate/warmgate/internal/simulate"
	"github.com/warmgate/warmgate/lb/region"
)

// layouts is what flags say of where servers are, and of what kinds.
type layouts struct {
	endpoints []int
	servers   []servers
	regions   []place
	rtts      []string
	forward   bool
	gateways  int

	prefill, decode int
	transfer        float64 // ms for each token
}

// game is a contender before some servers.
type game struct {
	contender simulate.Contender
	layout    *simulate.Layout
}

// name names a game for people.
func (g *game) name() string { return fmt.Sprintf("%s, %d endpoints", g.contender.Name, g.endpoints()) }

func (g *game) endpoints() (n int) {
	for i := range g.layout.Pools {
		n += len(g.layout.Pools[i].Engines)
	}
	return n
}

// addFlags adds the flags.
func (l *layouts) addFlags(command *cobra.Command) {
	f := command.Flags()
	f.IntSliceVar(&l.endpoints, "endpoints", []int{4}, "numbers of servers to play with")
	f.Var((*serversFlag)(&l.servers), "servers", "so many servers of a kind, such as 2:speed=0.5,cache=64k (speed, "+
		"cache, batch, queue); may be repeated")
	f.Var((*placesFlag)(&l.regions), "region", "a region by its name with so many servers and its share of the users, "+
		"such as eu=4,share=2,zone=1; zone: hours ahead of UTC, for --day. May be repeated")
	f.StringArrayVar(&l.rtts, "rtt", nil, "round trip between regions, 100ms for all unless said otherwise; "+
		"eu:us=80ms for two of them")
	f.BoolVar(&l.forward, "forward", false, "also play each configuration with lb_config.regions: requests are "+
		"forwarded to other regions while no server in their own is open")
	f.IntVar(&l.gateways, "gateways", 1, "gateways before the servers, of each region; more than one also play each "+
		"configuration with one store for all, as with Redis, but without its latency")
	f.IntVar(&l.prefill, "prefill", 0, "servers that compute prompts for those of --decode, against as many that do "+
		"both. A what-if: the plugin cannot choose two servers for a request")
	f.IntVar(&l.decode, "decode", 0, "servers that answer prompts which --prefill have computed")
	f.Float64Var(&l.transfer, "transfer-ms", 0.01, "ms that a token of a prompt takes from --prefill to --decode")
}

// excludeFlags refuses flags of simulate together that say different things of the same.
func excludeFlags(command *cobra.Command) {
	for _, described := range []string{
		"sessions", "requests", "prompts", "system", "turns", "question", "answer", "think", "ramp", "class", "limited",
		"day",
	} {
		command.MarkFlagsMutuallyExclusive("trace", described)
	}
	command.MarkFlagsMutuallyExclusive("day", "requests")
	for _, other := range []string{"endpoints", "region", "prefill", "within"} {
		command.MarkFlagsMutuallyExclusive("servers", other)
	}
	command.MarkFlagsMutuallyExclusive("endpoints", "region", "prefill")
	command.MarkFlagsMutuallyExclusive("within", "prefill")
	command.MarkFlagsRequiredTogether("prefill", "decode")
}

// needs lists which flags make no sense without another one.
var needs = [][2]string{
	{"rtt", "region"}, {"forward", "region"}, {"transfer-ms", "prefill"}, {"night", "day"}, {"speed", "trace"},
}

// checkNeeds refuses flags without the one that they are for.
func checkNeeds(command *cobra.Command) error {
	for _, n := range needs {
		if f := command.Flags(); f.Changed(n[0]) && !f.Changed(n[1]) {
			return fmt.Errorf("--%s is for a --%s", n[0], n[1])
		}
	}
	return nil
}

// validate refuses what there cannot be.
func (l *layouts) validate(command *cobra.Command) error {
	f := command.Flags()
	all := slices.Clone(l.endpoints)
	for _, s := range l.servers {
		all = append(all, s.n)
	}
	for _, p := range l.regions {
		all = append(all, p.n)
		if p.Zone != 0 && !f.Changed("day") {
			return fmt.Errorf("--region %s: the zone is for a --day", p.name)
		}
	}
	if f.Changed("prefill") {
		all = append(all, l.prefill, l.decode)
	}
	switch {
	case slices.ContainsFunc(all, func(n int) bool { return n < 1 || n > maxEndpoints }):
		return fmt.Errorf("want 1 endpoint at least, and %d at most", maxEndpoints)
	case len(l.regions) == 1:
		return errors.New("want more than one --region, or none")
	case len(l.regions) > region.MaxPeers+1:
		return fmt.Errorf("want %d regions at most", region.MaxPeers+1)
	case l.gateways < 1 || l.gateways > maxGateways:
		return fmt.Errorf("want --gateways from 1 to %d", maxGateways)
	case !(l.transfer >= 0 && l.transfer <= 1000):
		return errors.New("want --transfer-ms from 0 to 1000")
	}
	return nil
}

// places returns where the users are, nil without regions.
func (l *layouts) places() (all []simulate.Place) {
	for _, p := range l.regions {
		all = append(all, p.Place)
	}
	return all
}

// games returns which contenders play before which servers, all of which are like one but for what is said of them.
func (l *layouts) games(contenders []simulate.Contender, e simulate.Engine, fewest bool) ([]game, error) {
	if l.gateways > 1 {
		contenders = withShared(contenders)
	}
	games, err := l.gamesOf(contenders, e, fewest)
	for i := range games {
		games[i].layout.Gateways = l.gateways
	}
	return games, err
}

// withShared returns contenders with, behind each of the plugin, one whose gateways share their counts.
func withShared(contenders []simulate.Contender) (all []simulate.Contender) {
	for _, c := range contenders {
		if all = append(all, c); c.Config != nil && !c.Shared {
			c.Name, c.Shared = c.Name+" shared", true
			all = append(all, c)
		}
	}
	return all
}

func (l *layouts) gamesOf(contenders []simulate.Contender, e simulate.Engine, fewest bool) ([]game, error) {
	switch {
	case len(l.regions) > 0:
		return l.regionGames(contenders, e)
	case l.prefill > 0:
		return l.splitGames(contenders, e), nil
	}
	var all []*simulate.Layout
	if len(l.servers) > 0 {
		var fleet []simulate.Engine
		for _, s := range l.servers {
			engines := s.engines(e)
			if err := engines[0].Times.Validate(); err != nil {
				return nil, fmt.Errorf("--servers %s: %w", s.text, err)
			}
			fleet = append(fleet, engines...)
		}
		all = append(all, simulate.Alone(fleet))
	} else if fewest {
		all = append(all, simulate.Alone(simulate.Alike(slices.Max(l.endpoints), e)))
	} else {
		for _, n := range l.endpoints {
			all = append(all, simulate.Alone(simulate.Alike(n, e)))
		}
	}
	var games []game
	for _, layout := range all {
		for _, c := range contenders {
			games = append(games, game{c, layout})
		}
	}
	return games, nil
}

// splitGames returns games before servers that do both, and before those of which some compute prompts for others.
func (l *layouts) splitGames(contenders []simulate.Contender, e simulate.Engine) (games []game) {
	split := &simulate.Layout{
		Pools: []simulate.Pool{{Engines: simulate.Alike(l.prefill, e)}, {Engines: simulate.Alike(l.decode, e)}},
		Split: true, Transfer: time.Duration(l.transfer * float64(time.Millisecond)),
	}
	mixed := simulate.Alone(simulate.Alike(l.prefill+l.decode, e))
	for _, c := range contenders {
		games = append(games, game{c, mixed})
		c.Name = fmt.Sprintf("%s %d+%d", c.Name, l.prefill, l.decode)
		games = append(games, game{c, split})
	}
	return games
}

// regionGames returns games in regions, with --forward also of those that forward requests.
func (l *layouts) regionGames(contenders []simulate.Contender, e simulate.Engine) (games []game, err error) {
	layout := &simulate.Layout{}
	for _, p := range l.regions {
		layout.Pools = append(layout.Pools, simulate.Pool{Name: p.name, Engines: simulate.Alike(p.n, e)})
	}
	if layout.RTT, err = l.distances(); err != nil {
		return nil, err
	}
	forwards := false
	for _, c := range contenders {
		games = append(games, game{c, layout})
		if f, ok := layout.Forwarding(c); ok && l.forward {
			games = append(games, game{f, layout})
			forwards = true
		}
	}
	if l.forward && !forwards {
		return nil, errors.New("--forward: want a configuration without regions that says when a server is full, by " +
			"push, max_inflight or max_inflight_tokens")
	}
	return games, nil
}

// distances returns the round trips between regions.
func (l *layouts) distances() ([][]time.Duration, error) {
	usual := 100 * time.Millisecond
	between := map[[2]string]time.Duration{}
	for _, text := range l.rtts {
		pair, rtt, named := strings.Cut(text, "=")
		if !named {
			rtt = text
		}
		d, err := time.ParseDuration(rtt)
		a, b, two := strings.Cut(pair, ":")
		if err != nil || d < 0 || named && !(two && l.has(a) && l.has(b) && a != b) {
			return nil, fmt.Errorf("--rtt %s: want a time like 80ms, or one for two regions like eu:us=80ms", text)
		}
		if named {
			between[[2]string{a, b}], between[[2]string{b, a}] = d, d
		} else {
			usual = d
		}
	}
	all := make([][]time.Duration, len(l.regions))
	for i, a := range l.regions {
		for k, b := range l.regions {
			d, ok := between[[2]string{a.name, b.name}]
			if !ok && i != k {
				d = usual
			}
			all[i] = append(all[i], d)
		}
	}
	return all, nil
}

// has reports whether there is a region of that name.
func (l *layouts) has(name string) bool {
	return slices.ContainsFunc(l.regions, func(p place) bool { return p.name == name })
}

// about says where the servers are.
func (l *layouts) about() (lines []string) {
	if len(l.regions) > 0 {
		text := placesFlag(l.regions)
		lines = append(lines, "Regions: "+text.String())
		if len(l.rtts) > 0 {
			lines[0] += "; round trips " + strings.Join(l.rtts, ", ")
		}
	}
	if len(l.servers) > 0 {
		text := serversFlag(l.servers)
		lines = append(lines, "Kinds of servers: "+text.String())
	}
	if l.gateways > 1 {
		lines = append(lines, fmt.Sprintf("Gateways: %d, each knows its own unless that is shared", l.gateways))
	}
	if l.prefill > 0 {
		lines = append(lines, fmt.Sprintf("Pools: %d servers that compute prompts and %d that answer them, %g ms from "+
			"one to the other for each token, against as many that do both", l.prefill, l.decode, l.transfer))
	}
	return lines
}
