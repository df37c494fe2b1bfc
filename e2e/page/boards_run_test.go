package page

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/warmgate/warmgate/e2e/faultproxy"
	"github.com/warmgate/warmgate/e2e/fleet"
	"github.com/warmgate/warmgate/internal/vllmsim"
)

var (
	boardsFor = flag.Duration("boards", 0, "how long to run a gateway before pictures of its dashboards are made")
	faulty    = flag.Bool("faults", false, "then have one fault after another, each until it is shown")
)

// busyFleet is one under traffic, with prices and a queue.
type busyFleet struct {
	*fleet.Fleet
	burst  atomic.Int64 // how many requests of one tenant come beside each of the others
	halves atomic.Bool  // some requests are for an adapter that half of the servers have
}

// fault is what may go wrong, and the tile that shows it with a text in it.
type fault struct {
	name, tile, text string
	begin, end       func(*busyFleet)
}

var faults = []fault{
	{
		"a slow server", "Slow servers", "slow",
		func(f *busyFleet) { f.Tune(2, vllmsim.ModeSlow) },
		func(f *busyFleet) { f.Tune(2, vllmsim.ModeOK) },
	},
	{
		"a lost cache", "Caches", "lost its cache",
		func(f *busyFleet) { f.Engines[1].Reset() }, func(*busyFleet) {},
	},
	{
		"an adapter on half the servers", "Models", "half",
		func(f *busyFleet) { f.halves.Store(true) }, func(f *busyFleet) { f.halves.Store(false) },
	},
	{
		"a wrong password of Redis", "Redis", "auth",
		func(f *busyFleet) { f.Push(settings("another", "/metrics", 50)) },
		func(f *busyFleet) { f.Push(settings(fleet.Password, "/metrics", 50)) },
	},
	{
		"scrapes answered 404", "Engine metrics", "status",
		func(f *busyFleet) { f.Push(settings(fleet.Password, "/nothing", 50)) },
		func(f *busyFleet) { f.Push(settings(fleet.Password, "/metrics", 50)) },
	},
	{
		"a dead server", "Servers that fail", "",
		func(f *busyFleet) { f.Set(3, faultproxy.Refuse()) },
		func(f *busyFleet) { f.Set(3, faultproxy.Pass()) },
	},
	{
		"a queue that is too short", "Queue", "max_queue_size_exceeded",
		func(f *busyFleet) { f.Push(settings(fleet.Password, "/metrics", 1)); f.burst.Store(2) },
		func(f *busyFleet) { f.Push(settings(fleet.Password, "/metrics", 50)); f.burst.Store(0) },
	},
	{
		"a tenant that floods", "Tenants and budgets", "tenant-3",
		func(f *busyFleet) { f.burst.Store(8) }, func(f *busyFleet) { f.burst.Store(0) },
	},
}

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

// ask sends one turn of a conversation, and reads the answer; one client in twenty leaves while it comes.
func (f *busyFleet) ask(ctx context.Context, tenant string) {
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
	f.Ask(ctx, model, number, 10+number*7%90, 20+rand.IntN(80), true, "x-tenant: "+tenant, "x-class: "+class)
}

// send has requests come at random until the context is over.
func (f *busyFleet) send(ctx context.Context) {
	for ctx.Err() == nil {
		time.Sleep(time.Duration(rand.ExpFloat64() * float64(60*time.Millisecond)))
		go f.ask(ctx, fmt.Sprintf("tenant-%d", rand.IntN(4)))
		for range f.burst.Load() {
			go f.ask(ctx, "tenant-3")
		}
	}
}

// TestBoardsRun makes pictures of the dashboards of a real gateway, scraped by a real Prometheus, in build/out.
func TestBoardsRun(t *testing.T) {
	if *boardsFor == 0 {
		t.Skip("takes minutes: -boards=5m")
	}
	f := &busyFleet{Fleet: fleet.StartT(t, 2, settings(fleet.Password, "/metrics", 50))}
	at, err := url.Parse(fleet.PrometheusT(t, f.Gateway, "global: {scrape_interval: 2s}", nil))
	if err != nil {
		t.Fatal(err)
	}
	prometheus := httputil.NewSingleHostReverseProxy(at)
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
func findFaults(t *testing.T, f *busyFleet, url string) {
	for _, fault := range faults {
		b := open(t) // a browser has a time to live
		before := b.red(t, url, fault.tile)
		fault.begin(f)
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
		fault.end(f)
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
