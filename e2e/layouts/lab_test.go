package layouts

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/warmgate/warmgate/e2e/harness"
)

// The host names of requests, each of which selects a configuration of the plugin.
const (
	byRequests = "requests.test" // unit: requests
	byTokens   = "tokens.test"   // unit: tokens, so that bodies are held
	inRedis    = "redis.test"    // unit: requests, counted in Redis
	native     = "native.test"   // the plugin is not in the chain
)

// lab is a gateway with all layouts, and what its tests have sent.
type lab struct {
	g     *harness.Gateway
	fleet *fleet
	h1    *http.Client
	h2    *http.Client
	dials atomic.Int32 // of h2
	sent  atomic.Int64 // requests that meet the plugin
}

func newLab(g *harness.Gateway, f *fleet) *lab {
	l := &lab{g: g, fleet: f}
	l.h1 = &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: 8}, Timeout: harness.Patience,
		CheckRedirect: asIs,
	}
	l.h2 = l.newH2()
	return l
}

// asIs returns a redirect to the test instead of following it.
func asIs(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// newH2 returns a client that speaks HTTP/2 on connections of its own.
func (l *lab) newH2() *http.Client {
	c := harness.H2C()
	c.CheckRedirect = asIs
	c.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		l.dials.Add(1)
		var d net.Dialer
		return d.DialContext(ctx, network, addr)
	}
	return c
}

// query is a request of a client.
type query struct {
	client   *http.Client // nil: HTTP/1.1
	method   string       // "" for POST
	host     string       // "" for byRequests
	path     string       // behind the layout's prefix
	header   []string     // names and values by turns
	body     string       // "" for a short prompt, unless the method has none
	exchange string
}

// answer is what the client got.
type answer struct {
	status  int
	header  http.Header
	trailer http.Header
	body    string
}

func (a *answer) reason() string { return a.header.Get("x-warmgate-reason") }
func (a *answer) load() string   { return a.header.Get("x-warmgate-load") }

const prompt = `{"model":"m","max_tokens":8,"messages":[{"role":"user","content":"hello"}]}`

// request makes the request of a client to a layout.
func (l *lab) request(layout string, q query) (*http.Request, error) {
	if q.method == "" {
		q.method = http.MethodPost
	}
	if q.body == "" && q.method == http.MethodPost {
		q.body = prompt
	}
	var body io.Reader
	if q.body != "" {
		body = strings.NewReader(q.body)
	}
	r, err := http.NewRequest(q.method, l.g.URL()+prefixOf(layout)+q.path, body)
	if err != nil {
		return nil, err
	}
	r.Host = byRequests
	if q.host != "" {
		r.Host = q.host
	}
	if q.body != "" {
		r.Header.Set("content-type", "application/json")
	}
	if q.exchange != "" {
		r.Header.Set(exchangeHeader, q.exchange)
	}
	for i := 0; i < len(q.header); i += 2 {
		r.Header.Set(q.header[i], q.header[i+1])
	}
	if r.Host != native {
		l.sent.Add(1)
	}
	return r, nil
}

// send sends a request and reads the answer.
func (l *lab) send(layout string, q query) (*answer, error) {
	r, err := l.request(layout, q)
	if err != nil {
		return nil, err
	}
	client := q.client
	if client == nil {
		client = l.h1
	}
	resp, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return &answer{resp.StatusCode, resp.Header, resp.Trailer, string(body)}, err
}

// must is send for a request that has to be answered.
func (l *lab) must(t *testing.T, layout string, q query) *answer {
	t.Helper()
	a, err := l.send(layout, q)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// crowd sends n requests at once, each of which waits at its server until all have come, or were answered before.
// It returns the answers and how many came to each server.
func (l *lab) crowd(t *testing.T, layout string, n int, q query) ([]*answer, [size]int) {
	t.Helper()
	arrived, leave := make(chan bool, n), make(chan struct{})
	id, e := l.fleet.begin(func(w http.ResponseWriter, r *http.Request, _, _ int) {
		arrived <- true
		select {
		case <-leave:
		case <-r.Context().Done():
		}
		_, _ = io.WriteString(w, "hello")
	})
	q.exchange = id
	answers := make(chan *answer, n)
	failed := make(chan error, n)
	for range n {
		go func() {
			a, err := l.send(layout, q)
			if err != nil {
				failed <- err
				return
			}
			answers <- a
		}()
	}
	var all []*answer
	for here := 0; here+len(all) < n; {
		select {
		case <-arrived:
			here++
		case a := <-answers:
			all = append(all, a)
		case err := <-failed:
			close(leave)
			t.Fatal(err)
		}
	}
	close(leave)
	for len(all) < n {
		select {
		case a := <-answers:
			all = append(all, a)
		case err := <-failed:
			t.Fatal(err)
		}
	}
	return all, e.spread()
}

// known waits until the plugin chooses an endpoint of the layout.
func (l *lab) known(t *testing.T, layout, host string, q query) {
	t.Helper()
	q.host = host
	harness.Await(t, func() error {
		a := l.must(t, layout, q)
		if a.reason() != "chosen" {
			return fmt.Errorf("%s: %d, reason %q, want chosen", host, a.status, a.reason())
		}
		return nil
	})
}

// even waits until two requests for each endpoint, all at once, are spread evenly: nothing else is counted there, so
// every lease has come back. All of them must be answered with 200 and chosen.
func (l *lab) even(t *testing.T, layout string, endpoints int, q query) {
	t.Helper()
	var want [size]int
	var loads []string
	for i := range endpoints {
		want[i] = 2
		loads = append(loads, "1", "2")
	}
	slices.Sort(loads)
	harness.Await(t, func() error {
		answers, spread := l.crowd(t, layout, 2*endpoints, q)
		var have []string
		for _, a := range answers {
			if a.status != http.StatusOK || a.reason() != "chosen" {
				t.Fatalf("%s: %d, reason %q: %.200s", q.host, a.status, a.reason(), a.body)
			}
			have = append(have, a.load())
		}
		slices.Sort(have)
		slices.Sort(spread[:])
		slices.Reverse(spread[:])
		if spread != want || !slices.Equal(have, loads) {
			return fmt.Errorf("%s: requests by server %v, loads %v; want %v and %v", q.host, spread, have, want, loads)
		}
		return nil
	})
}

// balances checks what applies to every layout in which the plugin chooses among the endpoints.
func (l *lab) balances(t *testing.T, layout string, endpoints int, q query) {
	t.Helper()
	for _, q.host = range []string{byRequests, byTokens} {
		l.known(t, layout, q.host, q)
		chosen, sent := l.g.DecidedT(t, "chosen"), l.sent.Load()
		l.even(t, layout, endpoints, q)
		if got, want := l.g.DecidedT(t, "chosen")-chosen, float64(l.sent.Load()-sent); got != want {
			t.Errorf("%s: %v requests are counted as chosen, %v were sent", q.host, got, want)
		}
		l.asNative(t, layout, q)
	}
}

// asNative compares an answer with the one without the plugin, but for the plugin's own headers.
func (l *lab) asNative(t *testing.T, layout string, q query) {
	t.Helper()
	host := q.host
	if host == "" {
		host = byRequests
	}
	with := l.must(t, layout, q)
	q.host = native
	without := l.must(t, layout, q)
	for _, a := range []*answer{with, without} {
		for _, name := range []string{
			"Date", "X-Envoy-Upstream-Service-Time", "X-Warmgate-Reason", "X-Warmgate-Host", "X-Warmgate-Load",
			"X-Warmgate-Rule", "X-Warmgate-Runner-Up",
		} {
			a.header.Del(name)
		}
	}
	have, want := fmt.Sprintf("%+v", *with), strings.ReplaceAll(fmt.Sprintf("%+v", *without), native, host)
	if have != want {
		t.Errorf("with the plugin\n%s\nwithout\n%s", have, want)
	}
}
