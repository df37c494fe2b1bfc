package vllmsim

import (
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmgate/warmgate/internal/enginesim"
)

// traffic counts requests and connections of a server.
type traffic struct {
	inflight, maxInflight, total atomic.Int64
	connections                  atomic.Int64

	mu       sync.Mutex
	statuses map[int]int64
	handlers map[handlerKey]*handlerStats
	latency  enginesim.Histogram // over all handlers
}

// handlerKey and handlerStats feed the http_* families of /metrics.
type handlerKey struct{ handler, method string }

type handlerStats struct {
	classes [6]int64 // by first digit of the status
	inBytes float64
	latency enginesim.Histogram
}

var (
	handlerBounds = []float64{.1, .5, 1}
	highrBounds   = []float64{
		.01, .025, .05, .075, .1, .25, .5, .75,
		1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 7.5, 10, 30, 60,
	}
)

// clear forgets the counts of ended requests.
func (t *traffic) clear() {
	t.statuses = make(map[int]int64)
	t.handlers = make(map[handlerKey]*handlerStats)
	t.latency = enginesim.Histogram{Bounds: highrBounds}
}

func (t *traffic) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clear()
	t.total.Store(0)
	t.maxInflight.Store(t.inflight.Load())
}

// connState counts open connections. Hijacked ones have left the HTTP server's sight and are
// counted through their request.
func (t *traffic) connState(c net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		t.connections.Add(1)
	case http.StateClosed, http.StateHijacked:
		t.connections.Add(-1)
	}
}

// enter counts a request in and returns when.
func (t *traffic) enter() time.Time {
	t.total.Add(1)
	n := t.inflight.Add(1)
	for {
		m := t.maxInflight.Load()
		if n <= m || t.maxInflight.CompareAndSwap(m, n) {
			break
		}
	}
	return time.Now()
}

// leave counts a request out. Status 0 is one that was answered with a reset.
func (t *traffic) leave(r *http.Request, began time.Time, status int) {
	seconds := time.Since(began).Seconds()
	t.mu.Lock()
	t.statuses[status]++
	t.latency.Observe(seconds)
	if isModelPath(r.URL.Path) {
		t.handler(r).count(r, status, seconds)
	}
	t.mu.Unlock()
	t.inflight.Add(-1)
}

// isModelPath limits the labels of /metrics to routes vLLM has too.
func isModelPath(path string) bool {
	return path == "/v1/chat/completions" || path == "/v1/completions"
}

func (t *traffic) handler(r *http.Request) *handlerStats {
	key := handlerKey{r.URL.Path, r.Method}
	h := t.handlers[key]
	if h == nil {
		h = &handlerStats{latency: enginesim.Histogram{Bounds: handlerBounds}}
		t.handlers[key] = h
	}
	return h
}

func (h *handlerStats) count(r *http.Request, status int, seconds float64) {
	if class := status / 100; class < len(h.classes) {
		h.classes[class]++
	}
	h.inBytes += float64(max(0, r.ContentLength))
	h.latency.Observe(seconds)
}

// keys returns the handlers that were called, in a fixed order.
func (t *traffic) keys() []handlerKey {
	keys := make([]handlerKey, 0, len(t.handlers))
	for k := range t.handlers {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b handlerKey) int {
		return -strings.Compare(a.handler+a.method, b.handler+b.method)
	})
	return keys
}
