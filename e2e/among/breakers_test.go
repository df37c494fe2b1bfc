package among

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
)

// breakersAt returns a change of the files: circuit breakers by name of the site, and a route of its own to the first
// site for requests with the header x-direct.
func breakersAt(limits map[string]int) func(file string, doc *yaml.Node) error {
	return func(file string, doc *yaml.Node) error {
		switch file {
		case "envoy.yaml":
			return harness.Insert(doc, routesPath, "", 0, `
- name: direct
  match: {prefix: /, headers: [{name: x-direct, present_match: true}]}
  route: {cluster: llm-a, timeout: 0s}
`)
		case "clusters.yaml":
			for _, name := range []string{"llm-a", "llm-b"} {
				limit := cmp.Or(limits[name], 65536)
				err := harness.Set(doc, "resources[name="+name+"].circuit_breakers",
					map[string]any{"thresholds": []any{map[string]any{"max_requests": limit}}})
				if err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// settle waits until the gateway has looked at itself a few times: a request that had just ended at the last look is
// taken for one of another route until the next.
func (l *lab) settle() {
	l.t.Helper()
	looks := func() float64 { return l.SumT(l.t, `^cluster\.warmgate-admin\.upstream_rq_completed$`) }
	before := looks()
	harness.Await(l.t, func() error {
		if n := looks() - before; n < 8 {
			return fmt.Errorf("%v requests to the admin interface", n)
		}
		return nil
	})
}

// burst sends n requests at once that are held, and returns a function that waits for their statuses.
func (l *lab) burst(n int, headers ...string) func() map[int]int {
	l.settle()
	statuses, mu, wg := map[int]int{}, sync.Mutex{}, sync.WaitGroup{}
	for range n {
		wg.Add(1)
		go func() {
			defer wg.Done()
			r, err := http.NewRequestWithContext(l.t.Context(), http.MethodPost, l.URL()+"/held", strings.NewReader(`{}`))
			if err != nil {
				l.t.Error(err)
				return
			}
			for _, h := range headers {
				name, value, _ := strings.Cut(h, ": ")
				r.Header.Set(name, value)
			}
			status := 0
			if resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r); err == nil {
				status = resp.StatusCode
				resp.Body.Close()
			}
			mu.Lock()
			statuses[status]++
			mu.Unlock()
		}()
	}
	return func() map[int]int { wg.Wait(); return statuses }
}

// holds waits until the sites hold so many requests.
func (l *lab) holds(a, b, own int64) {
	l.t.Helper()
	harness.Await(l.t, func() error {
		if l.a.held() != a || l.b.held() != b || l.own.held() != own {
			return fmt.Errorf("%d, %d and %d held, want %d, %d and %d", l.a.held(), l.b.held(), l.own.held(), a, b, own)
		}
		return nil
	})
}

// overflows returns how many requests circuit breakers have failed.
func (l *lab) overflows() float64 {
	l.t.Helper()
	return l.SumT(l.t, `^cluster\.llm(-a|-b)?\.upstream_rq_pending_overflow$`)
}

// TestBreakerOfACluster sends 40 requests at once to a site that takes 4 and one that takes all: none fails by the
// breaker. If both take few, the route's own cluster serves the others.
func TestBreakerOfACluster(t *testing.T) {
	for _, version := range versions {
		for _, c := range []struct {
			limits map[string]int
			a, b   int64
		}{{map[string]int{"llm-a": 4}, 4, 36}, {map[string]int{"llm-a": 4, "llm-b": 9}, 4, 9}} {
			l := &lab{t: t, more: breakersAt(c.limits)}
			l.start(harness.Options{Version: version, Config: choosing("")})
			l.knows(func(a *harness.Answer) bool {
				return a.Header.Get("x-warmgate-cluster") == a.Header.Get("x-site")
			})
			before := l.DecidedT(t, "no_cluster_available")
			statuses := l.burst(40)
			l.holds(c.a, c.b, 40-c.a-c.b)
			if n := l.DecidedT(t, "no_cluster_available") - before; int64(n) != 40-c.a-c.b {
				t.Errorf("%s: %v requests are counted as left to the route's own cluster", version, n)
			}
			l.let()
			if got := statuses(); got[http.StatusOK] != 40 {
				t.Errorf("%s: statuses %v", version, got)
			}
			if n := l.overflows(); n != 0 {
				t.Errorf("%s: circuit breakers have failed %v requests", version, n)
			}
			l.DrainedT(t)
		}
	}
}

// TestBreakerOpenedByOthers fills a site with requests of another route: it is left out, and used again after that.
func TestBreakerOpenedByOthers(t *testing.T) {
	for _, version := range versions {
		l := &lab{t: t, more: breakersAt(map[string]int{"llm-a": 4})}
		l.start(harness.Options{Version: version, Config: choosing("")})
		both := func(a *harness.Answer) bool { return a.Header.Get("x-warmgate-cluster") == a.Header.Get("x-site") }
		l.knows(both)
		statuses := l.burst(4, "x-direct: yes")
		l.holds(4, 0, 0)
		l.knows(func(a *harness.Answer) bool { return a.Header.Get("x-site") == l.b.name })
		failed := l.overflows() // until the next look at the gateway
		if to := l.shares(50, 0); to[l.b.name] != 50 {
			t.Errorf("%s: while the first site is full: %v", version, to)
		}
		l.let()
		if got := statuses(); got[http.StatusOK] != 4 {
			t.Errorf("%s: statuses %v", version, got)
		}
		harness.Await(t, func() error {
			if site := l.send().Header.Get("x-site"); site != l.a.name {
				return fmt.Errorf("%s serves", site)
			}
			return nil
		})
		if n := l.overflows(); n != failed {
			t.Errorf("%s: %v requests have failed since it was known", version, n-failed)
		}
		l.DrainedT(t)
	}
}
