package layouts

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/harness"
)

const mirror = "copies" // the cluster that copies of requests go to

// retryLayouts are routes that send a request more than once.
var retryLayouts = []layout{
	{name: "retry on 503", check: func(t *testing.T, l *lab, name string) { l.retries(t, name, failing) }},
	{name: "retry on reset", check: func(t *testing.T, l *lab, name string) {
		l.retries(t, name, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	}},
	{name: "retry on connect failure", cluster: func(f *fleet) string {
		return static(append([]string{refusing()}, f.plain[:2]...))
	}, check: skipsRefusing},
	{name: "per-try timeout", route: perTry, check: func(t *testing.T, l *lab, name string) {
		l.retries(t, name, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	}},
	{name: "hedge", route: perTry + "hedge_policy: {hedge_on_per_try_timeout: true}\n", check: hedges},
	{name: "mirror", route: "request_mirror_policies: [{cluster: " + mirror + "}]\n", check: mirrors},
	{name: "internal redirect", route: "internal_redirect_policy: {max_internal_redirects: 1}\n", check: redirects},
}

// perTry gives up an attempt after half a second. On a busy machine that may happen to the second as well.
const perTry = `retry_policy:
  retry_on: reset,retriable-status-codes
  num_retries: 2
  per_try_timeout: 0.5s
  retry_host_predicate:
  - name: envoy.retry_host_predicates.previous_hosts
    typed_config: {"@type": ` + types + `extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate}
  host_selection_retry_max_attempts: 10
`

// failing answers 503.
func failing(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }

// refusing returns an address without a listener.
func refusing() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// retries has the first attempt of each request fail: the second, at another server, is answered, and the lease moves
// there.
func (l *lab) retries(t *testing.T, name string, fail func(w http.ResponseWriter, r *http.Request)) {
	t.Helper()
	for _, host := range []string{byRequests, byTokens} {
		l.known(t, name, host, query{})
		moves, chosen := l.g.SumT(t, `^wasmcustom\.warmgate_lease_moves_total$`), l.g.DecidedT(t, "chosen")
		const requests = 2
		for range requests {
			id, e := l.fleet.begin(func(w http.ResponseWriter, r *http.Request, _, attempt int) {
				if attempt == 0 {
					_, _ = io.Copy(io.Discard, r.Body)
					fail(w, r)
					return
				}
				_, _ = io.WriteString(w, "hello")
			})
			a := l.must(t, name, query{host: host, exchange: id})
			if a.status != http.StatusOK || a.body != "hello" || a.reason() != "chosen" {
				t.Errorf("%s: %d, %q, reason %q", host, a.status, a.body, a.reason())
			}
			for server, n := range e.spread() {
				if n > 1 {
					t.Errorf("%s: %d attempts at server %d", host, n, server)
				}
			}
		}
		if n := l.g.SumT(t, `^wasmcustom\.warmgate_lease_moves_total$`) - moves; n != requests {
			t.Errorf("%s: %v leases moved, want %d", host, n, requests)
		}
		if n := l.g.DecidedT(t, "chosen") - chosen; n != requests {
			t.Errorf("%s: %v decisions for %d requests", host, n, requests)
		}
	}
	settled(t, l, name)
}

// skipsRefusing has an endpoint that takes no connections: no request fails for it.
func skipsRefusing(t *testing.T, l *lab, name string) {
	moves := l.g.SumT(t, `^wasmcustom\.warmgate_lease_moves_total$`)
	l.known(t, name, byRequests, query{})
	answers, _ := l.crowd(t, name, 4*size, query{})
	for _, a := range answers {
		if a.status != http.StatusOK || a.reason() != "chosen" {
			t.Errorf("%d, reason %q", a.status, a.reason())
		}
	}
	if n := l.g.SumT(t, `^wasmcustom\.warmgate_lease_moves_total$`) - moves; n == 0 {
		t.Error("the endpoint that refuses was never tried")
	}
	settled(t, l, name)
}

// hedges has the first attempt take longer than its time limit: a second one goes to another server while the first
// continues. The second is answered, and then the first ends. It counts as one request all the time.
func hedges(t *testing.T, l *lab, name string) {
	for _, host := range []string{byRequests, byTokens} {
		l.known(t, name, host, query{})
		moves, chosen := l.g.SumT(t, `^wasmcustom\.warmgate_lease_moves_total$`), l.g.DecidedT(t, "chosen")
		first, cut := make(chan context.Context, 1), make(chan struct{})
		id, e := l.fleet.begin(func(w http.ResponseWriter, r *http.Request, _, attempt int) {
			_, _ = io.Copy(io.Discard, r.Body)
			switch attempt {
			case 0:
				first <- r.Context()
				<-r.Context().Done()
				close(cut)
				return
			case 1:
				if (<-first).Err() != nil {
					t.Error("the first attempt has ended before the second was answered")
				}
			}
			_, _ = io.WriteString(w, "hello")
		})
		a := l.must(t, name, query{host: host, exchange: id})
		<-cut
		if a.status != http.StatusOK || a.body != "hello" || a.reason() != "chosen" {
			t.Errorf("%s: %d, %q, reason %q", host, a.status, a.body, a.reason())
		}
		if e.arrived < 2 {
			t.Errorf("%s: %d attempts", host, e.arrived)
		}
		if n := l.g.SumT(t, `^wasmcustom\.warmgate_lease_moves_total$`) - moves; n != 1 {
			t.Errorf("%s: %v leases moved, want 1", host, n)
		}
		if n := l.g.DecidedT(t, "chosen") - chosen; n != 1 {
			t.Errorf("%s: %v decisions for a request", host, n)
		}
	}
	settled(t, l, name)
}

// mirrors has each request copied: the plugin neither decides nor counts the copies.
func mirrors(t *testing.T, l *lab, name string) {
	for _, host := range []string{byRequests, byTokens} {
		l.known(t, name, host, query{})
		chosen := l.g.DecidedT(t, "chosen")
		const requests = 4
		id, e := l.fleet.begin(func(w http.ResponseWriter, r *http.Request, _, _ int) {
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(w, "hello")
		})
		for range requests {
			a := l.must(t, name, query{host: host, exchange: id})
			if a.status != http.StatusOK || a.reason() != "chosen" || a.load() != "1" {
				t.Errorf("%s: %d, reason %q, load %q", host, a.status, a.reason(), a.load())
			}
		}
		harness.Await(t, func() error {
			if n := e.spread(); n[0]+n[1]+n[2] != 2*requests {
				return fmt.Errorf("%v requests at the servers, want %d and as many copies", n, requests)
			}
			return nil
		})
		if n := l.g.DecidedT(t, "chosen") - chosen; n != requests {
			t.Errorf("%s: %v decisions for %d requests", host, n, requests)
		}
	}
	settled(t, l, name)
	stats, err := l.g.Stats(t.Context(), `^wasmcustom\.warmgate_inflight_.*;cluster=`+mirror+`;`)
	if err != nil || len(stats) > 0 {
		t.Errorf("the mirror's cluster is counted: %v, %v", stats, err)
	}
}

// redirects has Envoy follow a redirect: each of the two requests is decided, and counted as long as it is under way.
func redirects(t *testing.T, l *lab, name string) {
	id, _ := l.fleet.begin(func(w http.ResponseWriter, r *http.Request, _, _ int) {
		if strings.HasSuffix(r.URL.Path, "/second") {
			_, _ = io.WriteString(w, "hello")
			return
		}
		w.Header().Set("Location", "http://"+r.Host+prefixOf(name)+"/second")
		w.WriteHeader(http.StatusFound)
	})
	for _, host := range []string{byRequests, byTokens} {
		l.known(t, name, host, query{})
		chosen := l.g.DecidedT(t, "chosen")
		a := l.must(t, name, query{host: host, exchange: id})
		if a.status != http.StatusOK || a.body != "hello" || a.reason() != "chosen" {
			t.Errorf("%s: %d, %q, reason %q", host, a.status, a.body, a.reason())
		}
		if n := l.g.DecidedT(t, "chosen") - chosen; n != 2 {
			t.Errorf("%s: %v decisions for a request and what it was redirected to", host, n)
		}
		l.asNative(t, name, query{host: host, exchange: id})
	}
	settled(t, l, name)
}
