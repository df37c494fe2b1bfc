package audit

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/warmgate/warmgate/e2e/wait"
)

// Watch looks several times a second for what must never be seen.
type Watch struct {
	site   *Site
	most   float64
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu     sync.Mutex
	looks  int
	peak   float64
	errs   []error
	allows map[string]bool
}

// never names the statistics that must stay 0.
var never = []string{
	"wasmcustom.warmgate_store_corrected_total", // totals that were not the sum of the leases
	"wasmcustom.warmgate_recovered_panics_total",
	"wasm.warmgate.vm_reload_success", // VMs that died
	"wasm.warmgate.vm_reload_failure",
}

const watchFilter = `^wasmcustom\.warmgate_(inflight|store_corrected|recovered)|^wasm\.warmgate\.vm_reload`

// Watch begins to watch. most is the largest number of requests that can be in flight at one endpoint; a gauge above it
// is wrong. Statistics named in allow may leave 0. Stop ends the watch.
func (s *Site) Watch(ctx context.Context, most int, allow ...string) *Watch {
	ctx, cancel := context.WithCancel(ctx)
	w := &Watch{site: s, most: float64(most), cancel: cancel, allows: map[string]bool{}}
	for _, name := range allow {
		w.allows[name] = true
	}
	w.done.Add(1)
	go func() {
		defer w.done.Done()
		const period = 200 * time.Millisecond
		for w.look(ctx); wait.For(ctx, period) == nil; {
			w.look(ctx)
		}
	}()
	return w
}

func (w *Watch) look(ctx context.Context) {
	for _, g := range w.site.Gateways {
		stats, err := g.Stats(ctx, watchFilter)
		if err != nil {
			// the admin page answers late while Envoy compiles a module; Stop fails if it never answered
			continue
		}
		w.mu.Lock()
		w.looks++
		w.check(stats)
		w.mu.Unlock()
	}
}

// check records what is wrong with the statistics. One record of each kind is enough.
func (w *Watch) check(stats map[string]float64) {
	const enough = 5
	note := func(format string, args ...any) {
		if len(w.errs) < enough {
			w.errs = append(w.errs, fmt.Errorf("audit: "+format, args...))
		}
	}
	for name, v := range stats {
		if strings.HasPrefix(name, inflightGauge) {
			w.peak = max(w.peak, v)
			if v < 0 || v > w.most {
				note("%s is %v, never more than %v requests were under way", name, v, w.most)
			}
		}
	}
	for _, name := range never {
		if v := stats[name]; v != 0 && !w.allows[name] {
			note("%s is %v", name, v)
		}
	}
}

// Stop ends the watch and returns what was wrong, and the largest gauge that was seen.
func (w *Watch) Stop() (peak int64, err error) {
	w.cancel()
	w.done.Wait()
	if w.looks == 0 {
		return 0, fmt.Errorf("audit: the statistics could never be read")
	}
	return int64(w.peak), joinSorted(w.errs)
}
