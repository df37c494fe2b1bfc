package fault

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/harness"
)

// listed is a rule for a domain that lists the endpoints of it.
func listed(domain string, port int, engines ...*engine) string {
	var addrs []string
	for _, e := range engines {
		addrs = append(addrs, `"`+e.addr()+`"`)
	}
	return fmt.Sprintf(`{"_match_domain_":[%q],"lb_policy":"endpoint_metrics","lb_config":{"debug_headers":true,
		"health":{"slow_start":0,"consecutive_failures":1},
		"envoy":{"metrics_cluster":"warmgate-metrics","endpoints":[%s]},"metrics":{"port":%d,%s}}}`,
		domain, strings.Join(addrs, ","), port, quick)
}

// TestRulesListEndpoints has two rules of one cluster list different endpoints: the engines of both are asked for
// metrics, requests stay on the list of their rule, and one that fails is ejected although every other request is for
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
			if err := s.staysOn(domain, list); err != nil {
				return err
			}
		}
		if n := s.fresh(t); n != len(s.engines) {
			return fmt.Errorf("%d engines have fresh metrics, want %d", n, len(s.engines))
		}
		return nil
	}
	await(t, both)
	for range 20 {
		if err := both(); err != nil {
			t.Fatal(err)
		}
	}
	a[0].fails.Store(true)
	await(t, func() error {
		for _, domain := range []string{"a.example", "b.example"} {
			if _, err := s.reach(domain); err != nil {
				return err
			}
		}
		if sum(t, s.Gateway, `^wasmcustom\.warmgate_ejections_total`) == 0 {
			return fmt.Errorf("an endpoint that fails is not ejected")
		}
		return nil
	})
	drained(t, s.Gateway)
}

// reach sends a request to the domain and returns the chosen endpoint.
func (s *scraped) reach(domain string) (host string, err error) {
	req, err := http.NewRequest(http.MethodGet, s.URL()+"/v1/models", nil)
	if err != nil {
		return "", err
	}
	req.Host, req.Close = domain, true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.Header.Get("x-warmgate-host"), err
}

// staysOn checks that a request for the domain goes to an endpoint of its list.
func (s *scraped) staysOn(domain string, list []*engine) error {
	host, err := s.reach(domain)
	for _, e := range list {
		if e.addr() == host {
			return err
		}
	}
	return fmt.Errorf("a request for %s goes to %q", domain, host)
}
