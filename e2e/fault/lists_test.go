package fault

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/harness"
)

// listed is a rule for a domain with a list of endpoints.
func listed(domain string, port int, engines ...*engine) string {
	var addrs []string
	for _, e := range engines {
		addrs = append(addrs, `"`+e.addr()+`"`)
	}
	return fmt.Sprintf(`{"_match_domain_":[%q],"lb_policy":"endpoint_metrics","lb_config":{"debug_headers":true,
		"health":{"slow_start":0,"consecutive_failures":1},
		"envoy":{"metrics_cluster":"warmgate-metrics","endpoints":[%s]},"metrics":{"port":%d,%s}}}`,
		domain, strings.Join(addrs, ","), port, steady)
}

// TestRulesListEndpoints has two rules of one cluster list different endpoints: the engines of both are scraped,
// requests stay on the list of their rule, and an endpoint that fails is ejected although every other request is for
// the other list.
func TestRulesListEndpoints(t *testing.T) {
	t.Parallel()
	s := &scraped{}
	s.engines, s.port = engines(t, 5)
	a, b := s.engines[:3], s.engines[3:]
	rules := listed("a.example", s.port, a...) + "," + listed("b.example", s.port, b...)
	s.start(t, harness.Options{Config: `{"_rules_":[` + rules + `]}`})
	both := func() error {
		for domain, list := range map[string][]*engine{"a.example": a, "b.example": b} {
			if err := s.staysOn(t, domain, list); err != nil {
				return err
			}
		}
		if n := s.fresh(t); n != len(s.engines) {
			return fmt.Errorf("%d engines have fresh metrics, want %d", n, len(s.engines))
		}
		return nil
	}
	harness.Await(t, both)
	for range 20 {
		if err := both(); err != nil {
			t.Fatal(err)
		}
	}
	a[0].fails.Store(true)
	harness.Await(t, func() error {
		for _, domain := range []string{"a.example", "b.example"} {
			s.reach(t, domain)
		}
		if s.Gateway.SumT(t, `^wasmcustom\.warmgate_ejections_total`) == 0 {
			return fmt.Errorf("an endpoint that fails is not ejected")
		}
		return nil
	})
	s.Gateway.DrainedT(t)
}

// reach sends a request to the domain and returns the chosen endpoint.
func (s *scraped) reach(t *testing.T, domain string) (host string) {
	t.Helper()
	return harness.Send(t, nil, http.MethodGet, s.URL()+"/v1/models", "", "host: "+domain).Host()
}

// staysOn checks that a request for the domain goes to an endpoint of its list.
func (s *scraped) staysOn(t *testing.T, domain string, list []*engine) error {
	t.Helper()
	host := s.reach(t, domain)
	for _, e := range list {
		if e.addr() == host {
			return nil
		}
	}
	return fmt.Errorf("a request for %s goes to %q", domain, host)
}
