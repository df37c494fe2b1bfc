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
	"slices"
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
	begin, end       func(*busyFleet) // without an end it happens once
	alike            bool             // the next one would be seen in the same tile
}

var faults = []fault{
	{
		name: "a slow server", tile: "Slow servers", text: "slow",
		begin: func(f *busyFleet) { f.Tune(2, vllmsim.ModeSlow) },
		end:   func(f *busyFleet) { f.Tune(2, vllmsim.ModeOK) },
	},
	{
		name: "a lost cache", tile: "Caches", text: "lost its cache",
		begin: func(f *busyFleet) { f.Engines[1].Reset() },
	},
	{
		name: "an adapter on half the servers", tile: "Models", text: "half",
		begin: func(f *busyFleet) { f.halves.Store(true) },
		end:   func(f *busyFleet) { f.halves.Store(false) },
	},
	{
		name: "a wrong password of Redis", tile: "Redis", text: "auth",
		begin: func(f *busyFleet) { f.Push(settings("another", "/metrics", 50)) },
		end:   func(f *busyFleet) { f.Push(settings(fleet.Password, "/metrics", 50)) },
	},
	{
		name: "scrapes answered 404", tile: "Engine metrics", text: "status",
		begin: func(f *busyFleet) { f.Push(settings(fleet.Password, "/nothing", 50)) },
		end:   func(f *busyFleet) { f.Push(settings(fleet.Password, "/metrics", 50)) },
	},
	{
		name: "a dead server", tile: "Servers that fail",
		begin: func(f *busyFleet) { f.Set(3, faultproxy.Refuse()) },
		end:   func(f *busyFleet) { f.Set(3, faultproxy.Pass()) },
	},
	{
		name: "a queue that is too short", tile: "Queue", text: "max_queue_size_exceeded", alike: true,
		begin: func(f *busyFleet) { f.Push(settings(fleet.Password, "/metrics", 1)); f.burst.Store(2) },
		end:   func(f *busyFleet) { f.Push(settings(fleet.Password, "/metrics", 50)); f.burst.Store(0) },
	},
	{
		name: "a tenant that floods", tile: "Tenants and budgets", text: "tenant-3",
		begin: func(f *busyFleet) { f.burst.Store(8) },
		end:   func(f *busyFleet) { f.burst.Store(0) },
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

// How soon a tile names a fault, for how long that lasts at least, and how soon the tile is no longer red when it is
// over: what it asks for goes back two minutes.
const (
	seenIn = time.Minute
	lasts  = 30 * time.Second
	goneIn = 150 * time.Second
)

// mended is a fault that is over, which a tile may not know yet.
type mended struct {
	*fault
	since time.Time
	gone  bool
}

// watch looks at tiles while faults come and go.
type watch struct {
	b     browser
	url   string
	over  []*mended
	wrong []string // a page is not waited for in a test that has failed
}

// findFaults has one fault after another, and says how long it takes until the dashboard names it, and until that is no
// longer red but amber.
func findFaults(t *testing.T, f *busyFleet, url string) {
	w := &watch{url: url}
	const rows = "&rows=What+is+wrong+now,Servers"
	for i := range faults {
		fault := &faults[i]
		w.b = open(t) // a browser has a time to live
		before := w.tiles(t)[fault.tile].Red
		began := time.Now()
		fault.begin(f)
		w.name(t, fault, before, began)
		w.b.save(t, strings.ReplaceAll(fault.name, " ", "-"), url+"/?last=120"+rows)
		for time.Since(began) < lasts {
			w.wait(t)
		}
		if fault.end != nil {
			fault.end(f)
			began = time.Now()
		}
		w.over = append(w.over, &mended{fault, began, false})
		if fault.alike {
			w.await(t)
		}
	}
	w.b = open(t)
	w.await(t)
	w.b.save(t, "after", url+"/?last=900"+rows)
	for _, text := range w.wrong {
		t.Error(text)
	}
}

// name waits until the tile of a fault names it, which it did not before.
func (w *watch) name(t *testing.T, fault *fault, before string, began time.Time) {
	t.Helper()
	for time.Since(began) < 3*time.Minute {
		words, took := w.wait(t)[fault.tile].Red, time.Since(began).Round(time.Second)
		if words == "" || words == before || !strings.Contains(words, fault.text) {
			continue
		}
		t.Logf("%s: seen after %v in %s: %s", fault.name, took, fault.tile, words)
		if took > seenIn {
			w.wrong = append(w.wrong, fault.name+" was seen after "+took.String())
		}
		return
	}
	w.wrong = append(w.wrong, fmt.Sprintf("%s was not seen; all that is shown: %v", fault.name, w.tiles(t)))
}

// await waits until no fault that is over is red, or should not be.
func (w *watch) await(t *testing.T) {
	t.Helper()
	for slices.ContainsFunc(w.over, func(m *mended) bool { return !m.gone }) {
		w.wait(t)
	}
}

// wait looks at tiles a little later.
func (w *watch) wait(t *testing.T) map[string]colours {
	t.Helper()
	time.Sleep(3 * time.Second)
	return w.tiles(t)
}

// colours are what a tile says in each.
type colours struct{ Red, Orange, Green string }

// tiles returns what tiles say, and notes which faults are gone that are over.
func (w *watch) tiles(t *testing.T) map[string]colours {
	t.Helper()
	w.b.do(t, chromedp.Navigate(w.url+"/?rows=What+is+wrong+now"))
	w.b.until(t, `document.body.dataset.drawn > 0`)
	said := eval[map[string]colours](t, w.b, `Object.fromEntries([...document.querySelectorAll("section")].map((panel) => {
	  const of = (color) => [...panel.querySelectorAll(color)].map(
	    (tile) => [...tile.children].map((part) => part.textContent).join(", ")).join("; ");
	  return [panel.querySelector("h3").textContent, {Red: of(".red"), Orange: of(".orange"), Green: of(".green")}];
	}))`)
	for _, m := range w.over {
		if !m.gone {
			w.judge(t, m, said[m.tile])
		}
	}
	return said
}

// judge says whether a tile shows a fault that is over as it should.
func (w *watch) judge(t *testing.T, m *mended, tile colours) {
	t.Helper()
	took := time.Since(m.since).Round(time.Second)
	red := tile.Red != "" && strings.Contains(tile.Red, m.text)
	if m.gone = !red || took > goneIn; !m.gone {
		return
	}
	t.Logf("%s: %v after its end: %+v", m.name, took, tile)
	if red || tile.Orange == "" || !strings.Contains(tile.Orange, m.text) {
		w.wrong = append(w.wrong, fmt.Sprintf("%s, %v after its end: %+v", m.name, took, tile))
	}
}
