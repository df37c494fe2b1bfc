package scraper

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/wait"
)

// The configurations that are compared. Both balance over the same endpoints.
const (
	plainConfig  = `{"lb_type":"endpoint","lb_policy":"global_least_request","lb_config":{"envoy":{"admin_cluster":"warmgate-admin"}}}`
	scrapeConfig = `{"lb_type":"endpoint","lb_policy":"endpoint_metrics","lb_config":{` +
		`"envoy":{"admin_cluster":"warmgate-admin","metrics_cluster":"warmgate-metrics"}}}`
)

// stage is all that is running: two gateways before the same engines, of which one scrapes them.
type stage struct {
	settings        settings
	fleet           *fleet
	plain, scraping *harness.Gateway
}

// run is one span of a number of endpoints.
type run struct {
	cpu, cpuPlain float64 // CPU time of Envoy, ms per second
	rate          float64 // requests for metrics per second, to all engines
	age, oldest   float64 // of samples, ms: median and greatest
	fresh         float64 // endpoints with fresh metrics
	rss, rssPlain float64 // resident memory, MiB
}

// begin starts both gateways.
func (st *stage) begin(ctx context.Context) (err error) {
	o := harness.Options{Endpoints: st.fleet.endpoints(1), Edit: bench.Quiet, Config: plainConfig}
	if st.plain, err = harness.Start(ctx, o); err != nil {
		return err
	}
	o.Config = scrapeConfig
	st.scraping, err = harness.Start(ctx, o)
	return err
}

func (st *stage) end() {
	for _, g := range []*harness.Gateway{st.plain, st.scraping} {
		if g != nil {
			_ = g.Stop() // the process ends with this one in any case
		}
	}
}

// measure compares the gateways with n endpoints.
func (st *stage) measure(ctx context.Context, n int) ([]run, error) {
	for _, g := range []*harness.Gateway{st.plain, st.scraping} {
		if err := g.PushEndpoints(ctx, st.fleet.endpoints(n)); err != nil {
			return nil, err
		}
	}
	if err := st.settle(ctx, n); err != nil {
		return nil, err
	}
	var runs []run
	for range st.settings.Rounds {
		r, err := st.round(ctx, n)
		if err != nil {
			return nil, err
		}
		runs = append(runs, r)
	}
	return runs, nil
}

// settle waits until the metrics of all endpoints are known.
func (st *stage) settle(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		if err := st.touch(ctx); err != nil {
			return err
		}
		fresh, err := st.fresh(ctx)
		if err != nil || int(fresh) == n {
			return err
		}
		if err := wait.For(ctx, 500*time.Millisecond); err != nil {
			return fmt.Errorf("%v of %d endpoints have fresh metrics: %w", fresh, n, err)
		}
	}
}

func (st *stage) fresh(ctx context.Context) (float64, error) {
	return st.scraping.Sum(ctx, `^wasmcustom\.warmgate_metrics_fresh_endpoints;`)
}

// touch sends a request through both gateways: engines are scraped as long as there are requests.
func (st *stage) touch(ctx context.Context) error {
	for _, g := range []*harness.Gateway{st.plain, st.scraping} {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, g.URL()+"/v1/models", nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s, %v", resp.Status, err)
		}
	}
	return nil
}

// round measures both gateways over the same span.
func (st *stage) round(ctx context.Context, n int) (run, error) {
	if err := st.touch(ctx); err != nil {
		return run{}, err
	}
	cpu, cpuPlain, err := st.cpu()
	if err != nil {
		return run{}, err
	}
	from, before := time.Now(), st.fleet.scrapes()
	var ages []float64
	for end := from.Add(st.settings.span); time.Now().Before(end); {
		if err := wait.For(ctx, 97*time.Millisecond); err != nil { // no divisor of the interval
			return run{}, err
		}
		ages = append(ages, st.fleet.ages(n, time.Now())...)
	}
	cpu2, cpuPlain2, err := st.cpu()
	if err != nil {
		return run{}, err
	}
	seconds := time.Since(from).Seconds()
	age := bench.SpreadOf(ages)
	r := run{
		cpu: (cpu2 - cpu).Seconds() * 1e3 / seconds, cpuPlain: (cpuPlain2 - cpuPlain).Seconds() * 1e3 / seconds,
		rate: float64(st.fleet.scrapes()-before) / seconds, age: age.Median, oldest: age.Max,
	}
	if r.fresh, err = st.fresh(ctx); err != nil {
		return run{}, err
	}
	return r, st.memory(&r)
}

func (st *stage) cpu() (scraping, plain time.Duration, err error) {
	if scraping, err = st.scraping.CPU(); err != nil {
		return 0, 0, err
	}
	plain, err = st.plain.CPU()
	return scraping, plain, err
}

func (st *stage) memory(r *run) error {
	const mib = 1 << 20
	scraping, err := st.scraping.RSS()
	if err != nil {
		return err
	}
	plain, err := st.plain.RSS()
	r.rss, r.rssPlain = float64(scraping)/mib, float64(plain)/mib
	return err
}

// loadPage reads the page that all engines show.
func loadPage(path string) ([]byte, error) {
	page, err := os.ReadFile(path)
	if err == nil && !strings.Contains(string(page), "\n") {
		err = fmt.Errorf("%s is no page of metrics", path)
	}
	return page, err
}

// fleet is many engines in one process, each at a port of its own, that show the same page.
type fleet struct {
	page    []byte
	engines []*engine
}

// engine is one of them.
type engine struct {
	fleet  *fleet
	server *httptest.Server
	addr   string

	mu    sync.Mutex
	shown int       // pages
	last  time.Time // when it was last shown
}

func startFleet(n int, page []byte) *fleet {
	f := &fleet{page: page}
	for range n {
		e := &engine{fleet: f}
		e.server = httptest.NewServer(e)
		e.addr = e.server.Listener.Addr().String()
		f.engines = append(f.engines, e)
	}
	return f
}

func (f *fleet) close() {
	for _, e := range f.engines {
		e.server.CloseClientConnections()
		e.server.Close()
	}
}

// ServeHTTP implements http.Handler.
func (e *engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/metrics" {
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	_, _ = w.Write(e.fleet.page) // the gateway may be gone
	e.mu.Lock()
	defer e.mu.Unlock()
	e.shown++
	e.last = time.Now()
}

// endpoints returns the first n engines as the gateway knows them.
func (f *fleet) endpoints(n int) []harness.Endpoint {
	list := make([]harness.Endpoint, n)
	for i := range list {
		list[i].Addr = f.engines[i].addr
	}
	return list
}

// scrapes returns how often the engines have shown their page.
func (f *fleet) scrapes() (n int) {
	for _, e := range f.engines {
		e.mu.Lock()
		n += e.shown
		e.mu.Unlock()
	}
	return n
}

// ages returns how long ago each of the first n engines showed its page, in ms.
func (f *fleet) ages(n int, now time.Time) []float64 {
	ages := make([]float64, 0, n)
	for _, e := range f.engines[:n] {
		e.mu.Lock()
		last := e.last
		e.mu.Unlock()
		if !last.IsZero() {
			ages = append(ages, float64(now.Sub(last))/float64(time.Millisecond))
		}
	}
	return ages
}

// measureParser has the page read inside Envoy, without a scrape, and returns how long that takes in ms per MB (10⁶
// bytes).
func measureParser(ctx context.Context, page []byte) (bench.Spread, error) {
	module, err := bench.Probe(ctx)
	if err != nil {
		return bench.Spread{}, err
	}
	g, err := harness.Start(ctx, harness.Options{
		Workers: 1, Module: module, Config: "parse\n" + string(page), Policy: harness.LeastRequest, Edit: bench.Quiet,
	})
	if err != nil {
		return bench.Spread{}, err
	}
	defer func() { _ = g.Stop() }() // the process ends with this one in any case
	return parserTimes(g.Logs())
}

var batch = regexp.MustCompile(`probe: (\d+) bytes in (\d+) ns`)

// parserTimes reads what the plugin has logged, in ms per MB. The first half of the batches warms up.
func parserTimes(log string) (bench.Spread, error) {
	var ms []float64
	for _, m := range batch.FindAllStringSubmatch(log, -1) {
		size, err := strconv.ParseFloat(m[1], 64)
		took, err2 := strconv.ParseFloat(m[2], 64)
		if err := errors.Join(err, err2); err != nil {
			return bench.Spread{}, err
		}
		ms = append(ms, took/size) // ns per byte are ms per MB
	}
	if len(ms) < 2 {
		return bench.Spread{},
			fmt.Errorf("the plugin has measured nothing; its log ends %.2000s", log[max(0, len(log)-2000):])
	}
	return bench.SpreadOf(ms[len(ms)/2:]), nil
}
