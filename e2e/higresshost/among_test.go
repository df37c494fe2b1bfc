package higresshost_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/fakehost"
	"github.com/warmgate/warmgate/e2e/higresshost"
)

const (
	targetHeader = "x-higress-target-cluster"
	siteA        = "outbound|80||a.static"
	siteB        = "outbound|80||b.dns"
	amongSites   = `{"lb_type":"cluster","lb_policy":"cluster_metrics","lb_config":{"mode":"LeastBusy",` +
		`"service_list":["` + siteA + `","` + siteB + `"],"debug_headers":true,"health":{"slow_start":0}`
)

// sites runs the shipped plugin in front of two clusters with two endpoints each, and the route's own one.
func sites(t *testing.T, profile higresshost.Profile, members string) *higresshost.Gateway {
	t.Helper()
	gw := warmgate(t, higresshost.Options{
		Profile: profile, Workers: 2, Config: amongSites + members + `}}`, ClusterHeader: targetHeader,
	})
	for i, name := range []string{siteA, siteB} {
		for j := range 2 {
			gw.Cluster(name).Add(fmt.Sprintf("10.%d.0.%d:8000", i+1, j))
		}
	}
	return gw
}

// at returns how many requests are on the endpoints of a cluster.
func at(gw *higresshost.Gateway, name string) (n int) {
	for _, e := range gw.Cluster(name).Endpoints() {
		n += e.Active()
	}
	return n
}

// Each of two workers chooses among the clusters by what is in flight in both, whatever the client writes into the
// header, with and without a body.
func TestAmongClusters(t *testing.T) {
	for _, profile := range []higresshost.Profile{higresshost.Higress22, higresshost.Higress21} {
		gw := sites(t, profile, "")
		var open []*higresshost.Stream
		for i := range 40 {
			s := gw.Worker(i % 2).NewStream()
			s.RequestHeaders(fakehost.H(":method", "POST", ":path", completions, ":authority", "h",
				targetHeader, "llm"), i%4 < 2)
			if i%4 >= 2 {
				s.RequestBody([]byte(chat), true)
			}
			open = append(open, s)
			if a, b := at(gw, siteA), at(gw, siteB); a-b > 1 || b-a > 1 {
				t.Fatalf("%v: after %d requests %d and %d", profile, i+1, a, b)
			}
		}
		gw.Advance(1200 * time.Millisecond)
		for _, name := range []string{siteA, siteB} {
			if n := gw.Metrics().Gauge("warmgate_inflight_requests;cluster=clusters/route;endpoint=" + name); n != 20 {
				t.Errorf("%v: %d counted in %s", profile, n, name)
			}
		}
		for _, s := range open {
			s.ResponseHeaders(fakehost.H(":status", "200"), true)
		}
		if at(gw, "llm") != 0 || at(gw, siteA)+at(gw, siteB) != 0 {
			t.Errorf("%v: not all are served in the clusters", profile)
		}
	}
}

// A cluster that the gateway does not have is left out after its first failures.
func TestMissingCluster(t *testing.T) {
	gw := warmgate(t, higresshost.Options{
		Config: amongSites + `}}`, ClusterHeader: targetHeader,
	})
	gw.Cluster(siteA).Add("10.1.0.1:8000")
	failed := 0
	for range 100 {
		s := gw.Worker(0).Request("GET", "/v1/models", "")
		if s.Ended {
			failed++
			continue
		}
		s.ResponseHeaders(fakehost.H(":status", "200"), true)
		gw.Advance(10 * time.Millisecond)
	}
	if failed == 0 || failed > 12 {
		t.Errorf("%d of 100 requests went to the cluster that is not there", failed)
	}
}
