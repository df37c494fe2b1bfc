package page

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/warmgate/warmgate/e2e/child"
	"github.com/warmgate/warmgate/e2e/faultproxy"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/internal/vllmsim"
	"github.com/warmgate/warmgate/internal/vllmsim/vllmsimtest"
)

var (
	boardsFor = flag.Duration("boards", 0, "how long to run a gateway before pictures of its dashboards are made")
	faulty    = flag.Bool("faults", false, "then have one fault after another, each until it is shown")
)

// password is the one that Redis has.
const password = "a password of the test's own"

// fleet is a gateway before six simulated servers, each behind a proxy, with counts in Redis, prices and a queue.
type fleet struct {
	engines []*vllmsim.Server
	proxies []*faultproxy.Proxy
	gateway *harness.Gateway
	burst   atomic.Int64 // so many more of a tenant with each request
	halves  atomic.Bool  // an adapter is asked for that half of the servers have
}

// fault is what may go wrong, and the tile that shows it with a text in it.
type fault struct {
	name, tile, text string
	meet, end        func(t *testing.T, f *fleet)
}

var faults = []fault{
	{
		"a slow server", "Slow servers", "slow",
		func(t *testing.T, f *fleet) { f.mode(t, 2, vllmsim.ModeSlow) },
		func(t *testing.T, f *fleet) { f.mode(t, 2, vllmsim.ModeOK) },
	},
	{
		"a lost cache", "Caches", "lost its cache",
		func(_ *testing.T, f *fleet) { f.engines[1].Reset() }, func(*testing.T, *fleet) {},
	},
	{
		"an adapter on half the servers", "Models", "half",
		func(_ *testing.T, f *fleet) { f.halves.Store(true) }, func(_ *testing.T, f *fleet) { f.halves.Store(false) },
	},
	{
		"a wrong password of Redis", "Redis", "auth",
		func(t *testing.T, f *fleet) { f.push(t, settings("another", "/metrics", 50)) },
		func(t *testing.T, f *fleet) { f.push(t, settings(password, "/metrics", 50)) },
	},
	{
		"scrapes answered 404", "Engine metrics", "status",
		func(t *testing.T, f *fleet) { f.push(t, settings(password, "/nothing", 50)) },
		func(t *testing.T, f *fleet) { f.push(t, settings(password, "/metrics", 50)) },
	},
	{
		"a dead server", "Servers that fail", "",
		func(t *testing.T, f *fleet) { f.set(t, 3, faultproxy.Refuse()) },
		func(t *testing.T, f *fleet) { f.set(t, 3, faultproxy.Pass()) },
	},
	{
		"a queue that is too short", "Queue", "max_queue_size_exceeded",
		func(t *testing.T, f *fleet) { f.push(t, settings(password, "/metrics", 1)); f.burst.Store(2) },
		func(t *testing.T, f *fleet) { f.push(t, settings(password, "/metrics", 50)); f.burst.Store(0) },
	},
	{
		"a tenant that floods", "Tenants and budgets", "tenant-3",
		func(_ *testing.T, f *fleet) { f.burst.Store(8) }, func(_ *testing.T, f *fleet) { f.burst.Store(0) },
	},
}

// clients have addresses of their own: what one of them meets alone says little of a server.
var clients = func() (list [8]http.Client) {
	for i := range list {
		from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(10+i))}}
		list[i].Transport = &http.Transport{DialContext: from.DialContext, MaxIdleConnsPerHost: 16}
	}
	return list
}()

func settings(password, page string, length int) string {
	return fmt.Sprintf(`{"lb_policy": "prefix_cache", "lb_config": {"password": %q, "metrics": {"path": %q},
		"max_inflight": 8, "reserve_timeout": "250ms",
		"queue": {"max_wait": "5s", "max_length": %d, "tenant_header": "x-tenant",
		"classes": {"chat": 4, "batch": 1}, "class_header": "x-class", "default_class": "chat"},
		"prices": {"currency": "EUR", "tenant_header": "x-tenant",
		"models": {"sim": {"input": 1, "cached": 0.1, "output": 4},
		"adapter": {"input": 2, "cached": 0.2, "output": 6}}},
		"envoy": {"admin_cluster": "warmgate-admin", "metrics_cluster": "warmgate-metrics",
		"redis_cluster": "warmgate-redis"}}}`, password, page, length)
}

func newFleet(t *testing.T) *fleet {
	redis := redisserver.StartT(t, redisserver.Options{Config: []string{"requirepass \"" + password + "\""}})
	f := new(fleet)
	o := harness.Options{Workers: 2, Redis: redis.Addr(), Config: settings(password, "/metrics", 50)}
	for i := range 6 {
		c := vllmsim.DefaultConfig()
		c.NumBlocks = 4096
		c.Index, c.Adapters, c.MaxLoras = i, []string{"adapter", "half"}[:1+i%2], 4
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

func (f *fleet) mode(t *testing.T, i int, m vllmsim.Mode) {
	t.Helper()
	if err := f.engines[i].SetMode(m); err != nil {
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
	if f.halves.Load() && rand.IntN(5) == 0 {
		model = "half"
	}
	if rand.IntN(4) == 0 {
		class = "batch"
	}
	if rand.IntN(20) == 0 {
		left, cancel := context.WithTimeout(ctx, time.Duration(rand.IntN(800))*time.Millisecond)
		defer cancel()
		ctx = left
	}
	number := rand.IntN(100)
	system := strings.Repeat(fmt.Sprintf("Conversation %d has rules of its own. ", number), 10+number*7%90)
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
	resp, err := clients[rand.IntN(len(clients))].Do(r)
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
		for range f.burst.Load() {
			go f.ask(ctx, "tenant-3")
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
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go f.send(ctx)
	time.Sleep(*boardsFor)
	end := time.Now().Unix() - 2
	b := open(t)
	for _, name := range []string{"overview", "operations", "prefix-cache"} {
		at := fmt.Sprintf("%s/?end=%d&last=%d", serveBoard(t, name, prometheus), end, int(boardsFor.Seconds())-10)
		b.save(t, name, at)
	}
	if *faulty {
		findFaults(t, f, serveBoard(t, "operations", prometheus))
	}
}

// save leaves a picture of a dashboard in build/out.
func (b browser) save(t *testing.T, name, url string) {
	t.Helper()
	file := filepath.Join("../../build/out", "board-"+name+".webp")
	if err := os.WriteFile(file, b.pictureOfBoard(t, url, 1280), 0o644); err != nil {
		t.Fatal(err)
	}
}

// findFaults has one fault after another, and says how long it takes until the dashboard names it: less than three
// minutes.
func findFaults(t *testing.T, f *fleet, url string) {
	for _, fault := range faults {
		b := open(t) // a browser has a time to live
		before := b.red(t, url, fault.tile)
		fault.meet(t, f)
		began, words := time.Now(), ""
		for words == "" && time.Since(began) < 3*time.Minute {
			time.Sleep(3 * time.Second)
			words = b.red(t, url, fault.tile)
			if words == before || !strings.Contains(words, fault.text) {
				words = ""
			}
		}
		took := time.Since(began).Round(time.Second)
		if words == "" {
			t.Errorf("%s: not seen in %v; all that is red: %s", fault.name, took, b.red(t, url, ""))
		}
		t.Logf("%s: seen after %v in %s: %s", fault.name, took, fault.tile, words)
		b.save(t, strings.ReplaceAll(fault.name, " ", "-"), url+"/?last=120&rows=What+is+wrong+now,Servers")
		fault.end(t, f)
	}
}

// red returns what is red in a tile, or in all.
func (b browser) red(t *testing.T, url, tile string) string {
	t.Helper()
	b.do(t, chromedp.Navigate(url+"/?rows=What+is+wrong+now"))
	b.until(t, `document.body.dataset.drawn > 0`)
	return eval[string](t, b, fmt.Sprintf(`[...document.querySelectorAll("section")].filter((panel) =>
	  ["", panel.querySelector("h3").textContent].includes(%q)).flatMap((panel) =>
	  [...panel.querySelectorAll(".red")].map((tile) => tile.textContent)).join("; ")`, tile))
}
