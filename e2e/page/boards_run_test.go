package page

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/child"
	"github.com/warmgate/warmgate/e2e/faultproxy"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/internal/vllmsim"
	"github.com/warmgate/warmgate/internal/vllmsim/vllmsimtest"
)

var (
	boardsFor = flag.Duration("boards", 0, "run a gateway under traffic for as long, and make pictures of its dashboards")
	fault     = flag.String("fault", "", "what is wrong in the second half of the run: see faults")
)

// password is the one that Redis has.
const password = "a password of the test's own"

// fleet is a gateway before six simulated servers, each behind a proxy, with counts in Redis, prices and a queue.
type fleet struct {
	engines []*vllmsim.Server
	proxies []*faultproxy.Proxy
	gateway *harness.Gateway
	flooded chan struct{} // closed: a tenant sends as much as all others
}

// faults are what may go wrong: each has to be found by the first row of the dashboard of operations.
var faults = map[string]func(t *testing.T, f *fleet){
	"dead":     func(t *testing.T, f *fleet) { f.set(t, 2, faultproxy.Refuse()) },
	"slow":     func(t *testing.T, f *fleet) { f.slow(t, 2) },
	"password": func(t *testing.T, f *fleet) { f.push(t, settings("another", "/metrics", 50)) },
	"cache":    func(_ *testing.T, f *fleet) { f.engines[2].Reset() },
	"tenant":   func(_ *testing.T, f *fleet) { close(f.flooded) },
	"scrape":   func(t *testing.T, f *fleet) { f.push(t, settings(password, "/nothing", 50)) },
	"queue":    func(t *testing.T, f *fleet) { f.push(t, settings(password, "/metrics", 1)) },
}

func settings(password, page string, length int) string {
	return fmt.Sprintf(`{"lb_policy": "prefix_cache", "lb_config": {"password": %q, "metrics": {"path": %q},
		"max_inflight": 8, "queue": {"max_wait": "5s", "max_length": %d, "tenant_header": "x-tenant",
		"classes": {"chat": 4, "batch": 1}, "class_header": "x-class", "default_class": "chat"},
		"prices": {"currency": "EUR", "tenant_header": "x-tenant",
		"models": {"sim": {"input": 1, "cached": 0.1, "output": 4}, "adapter": {"input": 2, "cached": 0.2, "output": 6}}},
		"envoy": {"admin_cluster": "warmgate-admin", "metrics_cluster": "warmgate-metrics",
		"redis_cluster": "warmgate-redis"}}}`, password, page, length)
}

func newFleet(t *testing.T) *fleet {
	redis := redisserver.StartT(t, redisserver.Options{Config: []string{"requirepass \"" + password + "\""}})
	f := &fleet{flooded: make(chan struct{})}
	o := harness.Options{Workers: 2, Redis: redis.Addr(), Config: settings(password, "/metrics", 50)}
	for i := range 6 {
		c := vllmsim.DefaultConfig()
		c.Index, c.Adapters, c.MaxLoras = i, []string{"adapter"}, 4
		f.engines = append(f.engines, vllmsimtest.StartT(t, c))
		proxy, err := faultproxy.Start(t.Context(), f.engines[i].Addr())
		if err != nil {
			t.Fatal(err)
		}
		f.proxies = append(f.proxies, proxy)
		o.Endpoints = append(o.Endpoints, harness.Endpoint{Addr: proxy.Addr()})
	}
	f.gateway = harness.StartT(t, o)
	return f
}

func (f *fleet) set(t *testing.T, i int, m faultproxy.Mode) {
	t.Helper()
	if err := f.proxies[i].Set(m); err != nil {
		t.Fatal(err)
	}
}

func (f *fleet) slow(t *testing.T, i int) {
	t.Helper()
	if err := f.engines[i].SetMode(vllmsim.ModeSlow); err != nil {
		t.Fatal(err)
	}
}

func (f *fleet) push(t *testing.T, config string) {
	t.Helper()
	if err := f.gateway.PushPlugin(t.Context(), config); err != nil {
		t.Fatal(err)
	}
}

// ask sends one turn of a conversation, and reads the answer; one client in twenty leaves while it comes.
func (f *fleet) ask(ctx context.Context, tenant string) {
	model, class := "sim", "chat"
	if rand.IntN(5) == 0 {
		model = "adapter"
	}
	if rand.IntN(4) == 0 {
		class = "batch"
	}
	if rand.IntN(20) == 0 {
		left, cancel := context.WithTimeout(ctx, time.Duration(rand.IntN(800))*time.Millisecond)
		defer cancel()
		ctx = left
	}
	system := strings.Repeat(fmt.Sprintf("Conversation %d has rules of its own. ", rand.IntN(40)), 40+rand.IntN(3))
	body := fmt.Sprintf(`{"model": %q, "max_tokens": %d, "stream": true, "stream_options": {"include_usage": true},
		"messages": [{"role": "system", "content": %q}, {"role": "user", "content": "question %d"}]}`,
		model, 20+rand.IntN(80), system, rand.Int())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, f.gateway.URL()+"/v1/chat/completions",
		strings.NewReader(body))
	if err != nil {
		return
	}
	r.Header.Set("x-tenant", tenant)
	r.Header.Set("x-class", class)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
}

// send has requests come at random until the context is over.
func (f *fleet) send(ctx context.Context) {
	for ctx.Err() == nil {
		time.Sleep(time.Duration(rand.ExpFloat64() * float64(60*time.Millisecond)))
		go f.ask(ctx, fmt.Sprintf("tenant-%d", rand.IntN(4)))
		select {
		case <-f.flooded:
			for range 6 {
				go f.ask(ctx, "tenant-3")
			}
		default:
		}
	}
}

// scrape starts a Prometheus that scrapes the gateway every two seconds, and returns what leads to it.
func (f *fleet) scrape(t *testing.T) http.Handler {
	t.Helper()
	program, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("no prometheus in PATH")
	}
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := f.gateway.Prometheus(r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		w.Header().Set("content-type", "text/plain; version=0.0.4")
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(page.Close)
	dir := t.TempDir()
	config := fmt.Sprintf("global: {scrape_interval: 2s}\nscrape_configs:\n- job_name: gateway\n"+
		"  metrics_path: /\n  static_configs: [{targets: [%q], labels: {instance: gateway-1}}]\n", page.Listener.Addr())
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	address := "127.0.0.1:" + harness.FreePortT(t)
	command := exec.Command(program, "--config.file="+filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
	process, err := child.Start(command)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Kill(); <-process.Done() })
	return httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: address})
}

// TestBoardsRun makes pictures of the dashboards of a real gateway, scraped by a real Prometheus, in build/out.
func TestBoardsRun(t *testing.T) {
	if *boardsFor == 0 {
		t.Skip("takes minutes: -boards=5m")
	}
	f := newFleet(t)
	prometheus := f.scrape(t)
	ctx, stop := context.WithTimeout(t.Context(), *boardsFor)
	defer stop()
	go f.send(ctx)
	if meet := faults[*fault]; meet != nil {
		time.Sleep(*boardsFor / 2)
		meet(t, f)
	}
	<-ctx.Done()
	end := time.Now().Unix() - 2
	b := open(t)
	for _, name := range []string{"overview", "operations", "prefix-cache"} {
		at := fmt.Sprintf("%s/?end=%d&last=%d", serveBoard(t, name, prometheus), end, int(boardsFor.Seconds())-10)
		file := filepath.Join("../../build/out", strings.TrimSuffix("board-"+name+"-"+*fault, "-")+".webp")
		if err := os.WriteFile(file, b.pictureOfBoard(t, at, 1280), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
