package config

import (
	"slices"
	"strings"
	"testing"
)

// Every header is known by which a route may take a cluster, and nothing else, however a configuration names it.
func TestClusterHeadersOfWhatIsRefused(t *testing.T) {
	const among = `{"lb_type":"cluster","lb_policy":"cluster_metrics","lb_config":{"service_list":["a"],` +
		`"mode":"LeastBusy","cluster_header":"X-A","cluster_header":"x-b","regions":{"cluster_header":"x-c"}}}`
	for text, want := range map[string]string{
		among: "x-a x-b x-c x-higress-target-cluster",
		`{"_rules_":[{"cluster_header":"x-d"},{"lb_config":[{"cluster_header":"x-e"}]}]}`: "x-d x-e x-higress-target-cluster",
		`{"lb_config":{"cluster_header":[":path","Host","x-envoy-a","","x y",1]}}`:        DefaultClusterHeader,
		`{"lb_config":{"cluster_header":":path","a":{"cluster_header":1}}}`:               DefaultClusterHeader,
		`{"cluster_header":"x-a"`: DefaultClusterHeader, "": DefaultClusterHeader,
	} {
		if got := strings.Join(ClusterHeaders([]byte(text)), " "); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
	rule := `{"_match_route_":["r"],` + among[1:]
	set, err := Parse([]byte(`{"enabled":false,"_rules_":[`+rule+`]}`), Higress)
	if got := strings.Join(set.ClusterHeaders(), " "); err == nil || got != "x-a x-b x-c x-higress-target-cluster" {
		t.Errorf("of a rule that is refused: %s, %v", got, err)
	}
}

// Who names the first clusters of aggregate ones where their endpoints are not known is told so.
func TestFirstClustersWithoutEffect(t *testing.T) {
	const text = `{"lb_type":"cluster","lb_policy":"cluster_metrics","lb_config":{"mode":"LeastBusy",` +
		`"service_list":["ab","ba"],"first_clusters":{"ab":"a","ba":"b"}}}`
	admin := strings.Replace(text, `"mode"`, `"envoy":{"admin_cluster":"admin"},"mode"`, 1)
	for _, c := range []struct {
		text string
		host Host
		want []string
	}{
		{text, Higress, []string{
			keyFirst + " has no effect in Higress, which does not show the endpoints of these clusters",
		}},
		{text, Envoy, []string{
			keyFirst + " has no effect without envoy.admin_cluster: the endpoints of these clusters are not " +
				"known",
		}},
		{admin, Envoy, nil},
	} {
		set, err := Parse([]byte(c.text), c.host)
		if err != nil {
			t.Fatal(err)
		}
		if got := set.Warnings(); !slices.Equal(got, c.want) {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
