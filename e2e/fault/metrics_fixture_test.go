package fault

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/internal/vllmsim"
)

// engine is a model server whose metrics have an address of their own, so that they can fail while it serves.
type engine struct {
	index   int
	server  *httptest.Server                 // of requests
	where   string                           // ip:port of the metrics
	shown   *httptest.Server                 // nil while there is no listener
	page    atomic.Pointer[http.HandlerFunc] // of metrics
	scrapes atomic.Int64                     // of the page
	report  atomic.Pointer[string]           // in answers, nil for none
	format  atomic.Pointer[string]           // of the report that the last request accepts
	fails   atomic.Bool                      // requests are answered with 500
}

// addr is where requests are served.
func (e *engine) addr() string { return e.server.Listener.Addr().String() }

// setPage puts a page in force; with nil there is no listener.
func (e *engine) setPage(t *testing.T, page http.HandlerFunc) {
	t.Helper()
	if page == nil {
		e.shown.CloseClientConnections()
		e.shown.Close()
		e.shown = nil
		return
	}
	e.page.Store(&page)
	if e.shown == nil {
		e.listen(t)
	}
}

// listen serves the metrics, at the previous address if there was one.
func (e *engine) listen(t *testing.T) {
	t.Helper()
	var l net.Listener
	harness.Await(t, func() (err error) { l, err = net.Listen("tcp", e.where); return err })
	e.where = l.Addr().String()
	e.shown = serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.scrapes.Add(1)
		(*e.page.Load())(w, r)
	}))
}

func serve(l net.Listener, h http.Handler) *httptest.Server {
	s := httptest.NewUnstartedServer(h)
	s.Listener.Close()
	s.Listener = l
	s.Start()
	return s
}

// engines starts n servers, each at an IP address of its own and all with their metrics at the same port of theirs, as
// pods have them.
func engines(t *testing.T, n int) (list []*engine, port int) {
	t.Helper()
	for i := range n {
		ip := fmt.Sprintf("127.0.0.%d", i+2)
		e := &engine{index: i, where: net.JoinHostPort(ip, strconv.Itoa(port))}
		e.setPage(t, vllmPage(0, 0))
		port = e.shown.Listener.Addr().(*net.TCPAddr).Port
		l, err := net.Listen("tcp", ip+":0")
		if err != nil {
			t.Fatal(err)
		}
		sim := vllmsim.New(vllmsim.Config{Index: i, Instant: true})
		e.server = serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if format := r.Header.Get(formatHeader); r.URL.Path != "/health" {
				e.format.Store(&format)
			}
			if report := e.report.Load(); report != nil {
				w.Header().Set(reportHeader, *report)
			}
			if e.fails.Load() {
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			sim.ServeHTTP(w, r)
		}))
		t.Cleanup(func() {
			e.server.Close()
			if e.shown != nil {
				e.shown.Close()
			}
		})
		list = append(list, e)
	}
	return list, port
}

// idle is the page of an engine that has nothing to do.
func idle(int) http.HandlerFunc { return vllmPage(0, 0) }

// vllmPage is the page of a vLLM with so many requests in the batch and in the queue.
func vllmPage(running, waiting int) http.HandlerFunc {
	return pages(fmt.Sprintf("vllm:num_requests_running{engine=\"0\"} %d\nvllm:num_requests_waiting{engine=\"0\"} %d\n"+
		"vllm:kv_cache_usage_perc{engine=\"0\"} 0\n", running, waiting), 1)
}

// How often metrics are scraped, and for how long they count.
const (
	quick  = `"interval":"400ms","stale_after":"10s"`
	steady = `"interval":"400ms","stale_after":"1m"`
)

// metricsConfig returns a configuration of endpoint_metrics that scrapes metrics at the port. Lines are added to
// lb_config.
func metricsConfig(port int, pace string, lines ...string) string {
	lines = append(lines, fmt.Sprintf(`"metrics":{"port":%d,%s}`, port, pace))
	const poll = `"poll_interval":"100ms"`
	return strings.NewReplacer("global_least_request", "endpoint_metrics", poll, poll+`,"metrics_cluster":"warmgate-metrics"`).Replace(config(lines...))
}

// scraped is a gateway before engines.
type scraped struct {
	*harness.Gateway
	engines []*engine
	port    int // of the metrics
}

// scrape starts a gateway before n engines with the given pages. It returns once all their metrics are known. Pace and
// lines are as in metricsConfig.
func scrape(t *testing.T, n int, page func(i int) http.HandlerFunc, pace string, lines ...string) *scraped {
	t.Helper()
	s := &scraped{}
	s.engines, s.port = engines(t, n)
	for i, e := range s.engines {
		e.setPage(t, page(i))
	}
	s.start(t, harness.Options{Config: metricsConfig(s.port, pace, lines...)})
	harness.AwaitReason(t, s.URL(), "chosen")
	s.awaitFresh(t, n)
	return s
}

// start starts the gateway.
func (s *scraped) start(t *testing.T, o harness.Options) {
	t.Helper()
	for _, e := range s.engines {
		o.Endpoints = append(o.Endpoints, harness.Endpoint{Addr: e.addr()})
	}
	s.Gateway = harness.StartT(t, o)
}

// fresh returns of how many engines there are fresh metrics.
func (s *scraped) fresh(t *testing.T) int {
	t.Helper()
	return int(s.Gateway.SumT(t, `^wasmcustom\.warmgate_metrics_fresh_endpoints;`))
}

func (s *scraped) awaitFresh(t *testing.T, n int) {
	t.Helper()
	harness.Await(t, func() error {
		if got := s.fresh(t); got != n {
			return fmt.Errorf("%d engines have fresh metrics, want %d", got, n)
		}
		return nil
	})
}

// results returns how many scrapes had the result.
func (s *scraped) results(t *testing.T, result string) float64 {
	t.Helper()
	return s.Gateway.SumT(t, `^wasmcustom\.warmgate_metrics_scrapes_total;result=`+result+`$`)
}

// parts sends n requests, one by one because a request in flight makes an engine worse, and returns how many each
// engine served.
func (s *scraped) parts(t *testing.T, n int) []int {
	t.Helper()
	by := make([]int, len(s.engines))
	for range n {
		i, err := strconv.Atoi(harness.Get(t, s.URL()+"/sim/echo").Header.Get("x-sim-id"))
		if err != nil {
			t.Fatal(err)
		}
		by[i]++
	}
	return by
}

// awaitServed waits until requests go to engines for which want is true and nowhere else.
func (s *scraped) awaitServed(t *testing.T, want ...bool) {
	t.Helper()
	harness.Await(t, func() error {
		parts := s.parts(t, 40)
		for i, part := range parts {
			if part > 0 != want[i] {
				return fmt.Errorf("requests went to %v, want them where %v is", parts, want)
			}
		}
		return nil
	})
}
