package config

import (
	"strings"
	"testing"
)

// The clusters of a peer lead somewhere else each, and the plugin makes no calls by them.
func TestClustersOfAPeer(t *testing.T) {
	for _, c := range []struct{ name, list, place, problem string }{
		{
			"another servers twice", `[{"name":"eu","cluster":"a","adopt":{"cluster":"a"}}]`, "[0].adopt.cluster",
			`got "a", which lb_config.regions.peers[0].cluster is already`,
		},
		{
			"another's servers", `[{"name":"eu","cluster":"a","adopt":{"cluster":"b"}},` +
				`{"name":"ap","cluster":"c","adopt":{"cluster":"b"}}]`, "[1].adopt.cluster",
			`got "b", which lb_config.regions.peers[0].adopt.cluster is already`,
		},
		{
			"home adopted", `[{"name":"eu","cluster":"a","adopt":{"cluster":"home"}}]`, "[0].adopt.cluster",
			`got "home", the cluster of this region's own servers`,
		},
		{
			"calls adopted", `[{"name":"eu","cluster":"a","adopt":{"cluster":"admin"}}]`, "[0].adopt.cluster",
			`got "admin", through which the plugin makes its own calls`,
		},
		{
			"nothing adopted", `[{"name":"eu","cluster":"a","adopt":{}}]`, "[0].adopt",
			`got an object, want {"cluster": "eu-servers"}, the cluster of that region's servers`,
		},
		{
			"a name adopted", `[{"name":"eu","cluster":"a","adopt":"b"}]`, "[0].adopt",
			`got "b", want {"cluster": "eu-servers"}, the cluster of that region's servers`,
		},
		{
			"no name adopted", `[{"name":"eu","cluster":"a","adopt":{"cluster":"b c"}}]`, "[0].adopt.cluster",
			`got "b c"` + wantCluster,
		},
		{
			"forwarded home", `[{"name":"eu","cluster":"a","forward_cluster":"home"}]`, "[0].forward_cluster",
			`got "home", the cluster of this region's own servers`,
		},
	} {
		text := regionConfig(member{keyPeers, c.list}, member{keyAdmin, `"admin"`})
		if what := refused(t, text, Envoy, keyPeers+c.place); what != c.problem {
			t.Errorf("%s: got %q, want %q", c.name, what, c.problem)
		}
	}
}

// Endpoints that are listed are those of one cluster.
func TestAdoptBesideEndpoints(t *testing.T) {
	text := regionConfig(member{keyPeers, `[{"name":"eu","cluster":"a","adopt":{"cluster":"b"}}]`},
		member{"lb_config.envoy.endpoints", `["10.0.0.1:80"]`})
	const want = "got it beside envoy.endpoints, want envoy.admin_cluster: the endpoints of two clusters have to be " +
		"known"
	if what := refused(t, text, Envoy, keyPeers+"[0].adopt"); what != want {
		t.Errorf("got %q", what)
	}
}

// Clients have none of the clusters of a peer.
func TestClustersOfAPeerAreOwned(t *testing.T) {
	adopting := strings.Replace(regionRule("adopts", "us", ``), `"cluster":"a"`,
		`"cluster":"a","forward_cluster":"f","adopt":{"cluster":"s"}`, 1)
	if set, err := Parse([]byte(rulesOf(globalCap, adopting)), Higress); err != nil {
		t.Error(err)
	} else {
		for _, name := range []string{"a", "f", "s"} {
			if !set.Owns(name) || !set.IsPeer(name) {
				t.Errorf("clients may have the cluster %q", name)
			}
		}
	}
}
