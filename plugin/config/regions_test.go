package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb/region"
)

// testSecret is as short as a secret may be.
const testSecret = "0123456789abcdef"

// regionValues are values with which a configuration of regions is whole.
var regionValues = map[string]string{
	keyRegionName: `"us"`, keyRegionCluster: `"home"`, keyRegionSecret: `"` + testSecret + `"`,
	keyRegionBefore: `"` + testSecret + `g"`,
	keyPeers:        `[{"name":"eu","cluster":"a"}]`,
}

// regionNeeds returns the keys of regions that a key needs beside it.
func regionNeeds(name string) []member {
	list := []member{
		{keyRegionCluster, regionValues[keyRegionCluster]},
		{keyRegionSecret, regionValues[keyRegionSecret]},
		{keyRegionName, regionValues[keyRegionName]},
		{keyPeers, regionValues[keyPeers]},
	}
	return list[:map[string]int{keyRegionName: 2, keyPeers: 3, keyAllowed: 4}[name]]
}

// regionMembers writes the keys as members of the section.
func regionMembers(list []member) string {
	var texts []string
	for _, m := range list {
		_, last := split(m.name)
		texts = append(texts, `"`+last+`":`+m.value)
	}
	return strings.Join(texts, ",")
}

// regionConfig writes a configuration of regions with the members; those of regionValues may be among them.
func regionConfig(members ...member) []byte {
	list := []member{{"lb_policy", `"global_least_request"`}}
	for _, m := range append(regionNeeds(keyAllowed), member{keyMaxInflight, `8`}) {
		if !slices.ContainsFunc(members, func(other member) bool { return other.name == m.name }) {
			list = append(list, m)
		}
	}
	members = slices.DeleteFunc(slices.Clone(members), func(m member) bool { return m.value == "" })
	return []byte(writeConfig(append(list, members...)...))
}

// manyPeers returns one peer too many.
func manyPeers() []string {
	many := make([]string, region.MaxPeers+1)
	for i := range many {
		many[i] = fmt.Sprintf(`{"name":"r%d","cluster":"c%d"}`, i, i)
	}
	return many
}

// Each problem of a peer has the place where it is, and what would be right.
func TestPeers(t *testing.T) {
	many := manyPeers()
	const one = `{"name":"eu","cluster":"a"}`
	for _, c := range []struct{ name, list, place, problem string }{
		{"as many as there may be", `[` + strings.Join(many[1:], ",") + `]`, "", ""},
		{"too many", `[` + strings.Join(many, ",") + `]`, "", "got 17 regions" + wantPeers},
		{"none", `[]`, "", "got 0 regions" + wantPeers},
		{"no list", one, "", "got an object" + wantPeers},
		{
			"names alone", `["eu"]`, "[0]",
			`got "eu", want an object like {"name": "eu", "cluster": "warmgate-peer-eu", "rtt": "80ms"}`,
		},
		{"no name", `[{"cluster":"a"}]`, "[0].name", "missing" + wantRegion},
		{"bad name", `[{"name":"a b","cluster":"a"}]`, "[0].name", `got "a b"` + wantRegion},
		{
			"no cluster", `[{"name":"eu"}]`, "[0].cluster",
			"missing, want the name of the cluster that leads to the gateways of that region",
		},
		{"bad cluster", `[{"name":"eu","cluster":7}]`, "[0].cluster", "got 7" + wantCluster},
		{"name twice", `[` + one + `,{"name":"eu","cluster":"b"}]`, "[1].name", `got "eu" twice`},
		{
			"cluster twice", `[` + one + `,{"name":"ap","cluster":"a"}]`, "[1].cluster",
			`got "a" twice, want a cluster for each region`,
		},
		{"member twice", `[{"name":"eu","name":"eu","cluster":"a"}]`, "[0].name", "written twice"},
		{
			"unknown member", `[{"name":"eu","cluster":"a","RTT":1}]`, "[0].RTT",
			`unknown key, want one of "name", "cluster", "rtt", "forward_cluster", "adopt"; did you mean "rtt"?`,
		},
		{
			"another unknown member", `[{"name":"eu","cluster":"a","zzzz":1}]`, "[0].zzzz",
			`unknown key, want one of "name", "cluster", "rtt", "forward_cluster", "adopt"`,
		},
		{
			"far away", `[{"name":"eu","cluster":"a","rtt":1001}]`, "[0].rtt",
			`got 1001, want a duration from 0s to 1s, as milliseconds or a string like "20ms"`,
		},
		{"itself", `[{"name":"us","cluster":"a"}]`, "[0].name", `got "us", the name of this region itself, want only others`},
		{
			"the plugin's own", `[` + one + `,{"name":"ap","cluster":"admin"}]`, "[1].cluster",
			`got "admin", through which the plugin makes its own calls`,
		},
		{
			"its own servers", `[{"name":"eu","cluster":"home"}]`, "[0].cluster",
			`got "home", the cluster of this region's own servers`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := regionConfig(member{keyPeers, c.list}, member{keyAdmin, `"admin"`})
			if c.problem == "" {
				if got := mustParse(t, text, Envoy).Regions.Peers; len(got) != region.MaxPeers {
					t.Errorf("%d peers", len(got))
				}
			} else if what := refused(t, text, Envoy, keyPeers+c.place); what != c.problem {
				t.Errorf("got %q, want %q", what, c.problem)
			}
		})
	}
}

// A peer's round trip is a duration as elsewhere.
func TestRoundTripOfAPeer(t *testing.T) {
	for written, want := range map[string]time.Duration{
		`,"rtt":"80ms"`: 80 * time.Millisecond, `,"rtt":2.5`: 2500 * time.Microsecond, `,"rtt":0`: 0, ``: 100 * time.Millisecond,
	} {
		text := regionConfig(member{keyPeers, `[{"name":"eu","cluster":"a"` + written + `}]`})
		if got := mustParse(t, text, Higress).Regions.Peers[0].RTT; got != want {
			t.Errorf("%s: %v", written, got)
		}
	}
}

// Keys of regions are compared with each other.
func TestRegionsAreWhole(t *testing.T) {
	const missing = "missing, want the name of this region, as there is "
	two := member{keyPeers, `[{"name":"eu-west","cluster":"a"},{"name":"ap","cluster":"b"}]`}
	for _, c := range []struct {
		members        []member
		place, problem string
	}{
		{[]member{{keyRegionName, ""}}, keyRegionName, missing + keyPeers},
		{[]member{{keyRegionName, ""}, {keyPeers, ""}, {keyAllowed, `[]`}}, keyRegionName, missing + keyAllowed},
		{
			[]member{{keyRegionCluster, ""}},
			keyRegionCluster,
			"missing, want the name of the cluster of this region's own servers",
		},
		{
			[]member{{keyRegionSecret, ""}},
			keyRegionSecret,
			"missing, want a string of 16 bytes or more that all regions share, by which their gateways know each " +
				"other",
		},
		{
			[]member{{keyRegionSecret, `"short"`}},
			keyRegionSecret,
			"got a string of 5 bytes, want a string of 16 to 1024 bytes, random and the same in all regions",
		},
		{
			[]member{two, {keyAllowed, `["ap","eu_wset"]`}},
			keyAllowed + "[1]",
			`got "eu_wset", want one of "eu-west", "ap", of regions.peers; did you mean "eu-west"?`,
		},
		{
			[]member{two, {keyAllowed, `["us"]`}},
			keyAllowed + "[0]",
			`got "us", want one of "eu-west", "ap", of regions.peers`,
		},
		{
			[]member{{keyPeers, ""}, {keyAllowed, `["eu"]`}},
			keyAllowed + "[0]",
			`got "eu", which is none of regions.peers, and there are none`,
		},
		{[]member{two, {keyAllowed, `["ap","ap"]`}}, keyAllowed + "[1]", `got "ap" twice`},
		{[]member{two, {keyAllowed, `[7]`}}, keyAllowed + "[0]", "got 7, want the name of one of regions.peers"},
		{[]member{two, {keyAllowed, `"ap"`}}, keyAllowed, `got "ap"` + wantAllowed},
		// Its own problem is enough of a name or of a list of peers.
		{[]member{{keyRegionName, `1`}}, keyRegionName, "got 1" + wantRegion},
		{[]member{{keyPeers, `[]`}, {keyAllowed, `["eu"]`}}, keyPeers, "got 0 regions" + wantPeers},
	} {
		if what := refused(t, regionConfig(c.members...), Higress, c.place); what != c.problem {
			t.Errorf("%v: got %q, want %q", c.members, what, c.problem)
		}
	}
}

// What the plugin calls is not where requests go.
func TestServersAreNotAdmin(t *testing.T) {
	text := regionConfig(member{keyRegionCluster, `"admin"`}, member{keyAdmin, `"admin"`})
	const want = `got "admin", through which the plugin makes its own calls`
	if what := refused(t, text, Envoy, keyRegionCluster); what != want {
		t.Errorf("got %q", what)
	}
}

// Either a cluster is chosen for a request, or a region.
func TestRegionsWithClusters(t *testing.T) {
	among := []member{{"lb_type", `"cluster"`}, {keyClusters, `["c"]`}}
	what := refused(t, regionConfig(among...), Higress, "lb_config.regions")
	if !strings.HasPrefix(what, `got regions with lb_type "cluster", want one of them: `) {
		t.Errorf("%q", what)
	}
	text := writeConfig(append(among, member{"lb_policy", `"global_least_request"`},
		member{keyNested, `{"lb_policy":"prefix_cache","lb_config":{"regions":{"name":"us"}}}`})...)
	what = refused(t, []byte(text), Higress, keyNested+".lb_config.regions")
	if what != `got regions inside lb_type "cluster", want one of them` {
		t.Errorf("%q", what)
	}
}

// What has no effect is a warning.
func TestRegionsWithoutEffect(t *testing.T) {
	nobody := []member{{keyRegionName, ""}, {keyPeers, ""}}
	buffer := member{"lb_config.regions.queue_buffer", `1`}
	for _, c := range []struct {
		members []member
		want    []string
	}{
		{nil, nil},
		{[]member{{keyAllowed, `[]`}}, nil},
		{[]member{{keyPeers, ""}}, nil}, // it serves others
		{append(nobody, buffer), []string{
			keyRegionCluster + " has no effect without regions.name",
			keyRegionSecret + " has no effect without regions.name",
			buffer.name + " has no effect without regions.name",
		}},
		{[]member{{keyPeers, ""}, buffer, {keyAllowed, `[]`}}, []string{
			buffer.name + " has no effect without regions.peers, since nothing is forwarded",
			keyAllowed + " has no effect without regions.peers, since nothing is forwarded",
		}},
		{[]member{{keyGone, `"1s"`}, {keySteady, `"1s"`}}, []string{
			keyGone + " has no effect without adopt in regions.peers",
			keySteady + " has no effect without adopt in regions.peers",
		}},
		{[]member{{keyGone, `"1s"`}, {keyPeers, `[{"name":"eu","cluster":"a","adopt":{"cluster":"b"}}]`}}, nil},
		{[]member{{keyMaxInflight, `0`}}, []string{
			keyPeers + " has no effect with push blind and without max_inflight and max_inflight_tokens, unless no " +
				"endpoint is healthy: none is ever full",
		}},
		{[]member{{"lb_config.shadow", `true`}}, []string{
			keyPeers + " has no effect with shadow: nothing is forwarded that the gateway routes",
		}},
	} {
		set, err := Parse(regionConfig(c.members...), Higress)
		if err != nil {
			t.Errorf("%v: %v", c.members, err)
		} else if got := set.Warnings(); !slices.Equal(got, c.want) {
			t.Errorf("%v: got %q, want %q", c.members, got, c.want)
		}
	}
}

// regionRule writes a rule with the settings of regions.
func regionRule(route, name, more string) string {
	members := strings.Replace(regionMembers(regionNeeds(keyAllowed)), `"us"`, `"`+name+`"`, 1)
	return `{"_match_route_":["` + route + `"],"lb_policy":"prefix_cache","lb_config":{"max_inflight":8,"regions":{` +
		members + more + `}}}`
}

// Rules may differ in what they allow, and share everything else of a region.
func TestRegionsOfASet(t *testing.T) {
	set, err := Parse([]byte(rulesOf(globalCap,
		regionRule("all", "us", ``),
		regionRule("none", "us", `,"allowed":[],"cluster_header":"x-region"`),
		regionRule("other", "au", `,"allowed":["eu"]`),
		strings.Replace(regionRule("off", "off", ``), `"lb_policy"`, `"enabled":false,"lb_policy"`, 1),
	)), Higress)
	if err != nil {
		t.Fatal(err)
	}
	all, none, other := set.Match("all", "", ""), set.Match("none", "", ""), set.Match("other", "", "")
	if got := set.Regions(); !slices.Equal(got, []*Config{all, other}) {
		t.Errorf("got %v", got)
	}
	for _, c := range []struct {
		*Config
		forwards bool
		header   string
	}{
		{all, true, DefaultClusterHeader},
		{none, false, "x-region"},
		{other, true, DefaultClusterHeader},
		{set.global, false, ""},
	} {
		if c.Regions.Forwards() != c.forwards || c.RegionHeader() != c.header {
			t.Errorf("rule %d: forwards %v, by %q", c.ID, c.Regions.Forwards(), c.RegionHeader())
		}
	}
	if got := set.ClusterHeaders(); !slices.Equal(got, []string{"x-higress-target-cluster", "x-region"}) {
		t.Errorf("got %v", got)
	}
	if !set.Owns("a") || set.Owns("b") || set.Owns("") || !set.IsPeer("a") || set.IsPeer("b") {
		t.Error("the clusters of peers, and only they, are the plugin's")
	}
	if set, err = Parse([]byte(rulesOf(globalCap)), Higress); err != nil || set.Regions() != nil || set.Owns("a") ||
		len(set.ClusterHeaders()) > 0 {
		t.Errorf("without regions: %v", err)
	}
}

// Of the rules of a region those are known that differ in how much an endpoint takes.
func TestRulesOfARegion(t *testing.T) {
	rule := func(route, more string) string {
		return strings.Replace(regionRule(route, "us", ``), `"max_inflight":8`, more, 1)
	}
	set, err := Parse([]byte(rulesOf(globalCap,
		rule("first", `"max_inflight":8`), rule("same", `"max_inflight":8,"debug_headers":true,"output_tokens":9`),
		rule("less", `"max_inflight":7`), rule("shadow", `"max_inflight":6,"shadow":true`),
		rule("weights", `"max_inflight":8,"weights":{"10.0.0.1:80":2}`),
		rule("pending", `"push":"pending"`), rule("redis", `"max_inflight":8,"serviceFQDN":"redis.static"`),
		strings.Replace(rule("off", `"max_inflight":5`), `"lb_policy"`, `"enabled":false,"lb_policy"`, 1),
		strings.Replace(rule("asia", `"max_inflight":8,"shadow":true`), `"us"`, `"asia"`, 1),
	)), Higress)
	if err != nil {
		t.Fatal(err)
	}
	of := func(routes ...string) (list []*Config) {
		for _, r := range routes {
			list = append(list, set.Match(r, "", ""))
		}
		return list
	}
	if got := set.RulesOf(set.Regions()[0]); !slices.Equal(got, of("first", "less", "weights", "pending", "redis")) {
		t.Errorf("got %v", got)
	}
	if got := set.RulesOf(set.Regions()[1]); !slices.Equal(got, of("asia")) {
		t.Errorf("of a region in shadow mode: %v", got)
	}
}

// Two rules of one region that differ in what workers share are no set; a rule that changes keeps its last good form.
func TestRegionsThatDiffer(t *testing.T) {
	const want = "\n  _rules_[1].lb_config.regions: got another %s for \"us\" than elsewhere, want the same: "
	first := regionRule("a", "us", "")
	for what, second := range map[string]string{
		"secret":          strings.Replace(regionRule("b", "us", ""), testSecret, testSecret+"g", 1),
		"previous_secret": regionRule("b", "us", `,"previous_secret":"`+testSecret+`g"`),
		"cluster":         strings.Replace(regionRule("b", "us", ""), `"home"`, `"llm"`, 1),
		"list of peers":   strings.Replace(regionRule("b", "us", ""), `"eu"`, `"ap"`, 1),
		"probe_interval":  regionRule("b", "us", `,"probe_interval":"1s"`),
		"queue_buffer":    regionRule("b", "us", `,"queue_buffer":0`),
		"snapshot_bytes":  regionRule("b", "us", `,"snapshot_bytes":"2MiB"`),
		"gone":            regionRule("b", "us", `,"gone":"5s"`),
		"steady":          regionRule("b", "us", `,"steady":"1s"`),
	} {
		set, err := Parse([]byte(rulesOf(globalCap, first, second)), Higress)
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf(want, what)) || len(set.Refusals()) != 1 {
			t.Errorf("another %s: %v", what, err)
		}
		_, before, err := Update([]byte(rulesOf(globalCap, first, regionRule("b", "us", ""))), Higress, nil)
		if err != nil {
			t.Fatal(err)
		}
		set, _, err = Update([]byte(rulesOf(globalCap, first, second)), Higress, before)
		if err == nil || len(set.Refusals()) != 1 || !set.Refusals()[0].Kept || len(set.Regions()) != 1 {
			t.Errorf("another %s, later: %v", what, err)
		}
		if strings.Contains(err.Error(), testSecret) {
			t.Errorf("the secret is in %v", err)
		}
	}
}

// A secret is not shown by what prints settings.
func TestSecretOfRegionsIsNotShown(t *testing.T) {
	r := mustParse(t, regionConfig(member{keyRegionBefore, `"` + testSecret + `g"`}), Higress).Regions
	if r.Secret != testSecret || r.Previous != testSecret+"g" {
		t.Error("not the secret that is configured")
	}
	type plain Regions // without the methods of tests
	if text := fmt.Sprintf("%v %+v %#v", plain(r), plain(r), plain(r)); strings.Contains(text, testSecret) {
		t.Errorf("printed as %s", text)
	}
}

// Package region gets what is configured.
func TestBoardOfRegions(t *testing.T) {
	r := mustParse(t, regionConfig(member{"lb_config.regions.queue_buffer", `5`}), Higress).Regions
	board := r.Board()
	if board.Name != "us" || board.Interval != 200*time.Millisecond || board.Buffer != 5 ||
		!slices.Equal(board.Peers, []region.Peer{{Name: "eu", Distance: 100 * time.Millisecond}}) {
		t.Errorf("%+v", board)
	}
}
