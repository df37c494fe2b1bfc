package health

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// Lists are recomputed every maxListAge, and every lb.RefreshEvery while something changes with time.
func TestListsAreRecomputed(t *testing.T) {
	const now = time.Hour
	v := viewOf(0, 3)
	config := &ClusterConfig{Health: Config{
		ConsecutiveFailures: 1, EjectionTime: time.Minute, SlowStart: time.Minute, MaxEjectionPercent: 50,
	}}
	for name, c := range map[string]struct {
		change func(e *endpointHealth)
		want   time.Duration
	}{
		"nothing happens": {func(*endpointHealth) {}, maxListAge},
		"one has failed":  {func(e *endpointHealth) { e.rate, e.rateAt = 0.5, now }, lb.RefreshEvery},
		"one is ejected":  {func(e *endpointHealth) { e.until = now + 1 }, lb.RefreshEvery},
		"one is new": {func(e *endpointHealth) {
			e.startsSlowly, e.firstSeen = true, now-time.Second
		}, lb.RefreshEvery},
	} {
		h := New()
		h.updateView(0, v)
		c.change(h.endpoints[addrOf(1)])
		h.Candidates(now, v, config, 0)
		if got := h.list(now, v, config).validUntil; got != now+c.want {
			t.Errorf("%s: a list is valid for %v, want %v", name, got-now, c.want)
		}
	}
}
