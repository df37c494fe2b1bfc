package higresshost_test

import (
	"testing"

	"github.com/warmgate/warmgate/e2e/fakehost"
	"github.com/warmgate/warmgate/e2e/higresshost"
)

// TestRouteChangedBehindThePlugin has a filter behind the plugin send requests to another cluster, where Higress 2.1
// balances them natively and 2.2 answers 503: it knows no endpoint of the address that was chosen. Neither counts as a
// failure of the chosen endpoint.
func TestRouteChangedBehindThePlugin(t *testing.T) {
	for _, c := range []struct {
		profile higresshost.Profile
		strays  uint64
	}{
		{higresshost.Higress21, 1},
		{higresshost.Higress22, 0},
	} {
		gw := warmgate(t, higresshost.Options{Profile: c.profile})
		gw.Cluster("other").Add("10.1.0.1:8000")
		gw.OnRoute = func(s *higresshost.Stream) int { s.To("r2", "other"); return 0 }
		s := gw.Worker(0).Request("GET", "/v1/models", "")
		if !s.Ended {
			s.ResponseHeaders(fakehost.H(":status", "200"), false)
		}
		audit(t, gw)
		if n := gw.Metrics().Counter("warmgate_lease_strays_total"); n != c.strays {
			t.Errorf("%v: %d strays, want %d", c.profile, n, c.strays)
		}
	}
}
