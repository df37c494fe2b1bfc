package scraper

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/warmgate/warmgate/e2e/harness"
)

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
