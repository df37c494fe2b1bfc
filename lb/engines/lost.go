package engines

import (
	"time"

	"github.com/warmgate/warmgate/metrics"
)

// An engine that restarts, or is put to sleep, has lost its cache. Its page says so at the next scrape: its process
// began later, its counters are lower, its cache has another size.

const (
	// startSlack is by how many seconds the start of one process may move: exporters compute it from a clock.
	startSlack = 1
	// oneLoss is the time within which an endpoint does not lose its cache twice. If its pages show that, a
	// proxy answers each scrape with the page of another engine: no loss is believed until pages are of one engine.
	oneLoss = time.Minute
)

// Follow takes over what is known of the endpoint's cache from an earlier sample, and returns what in this one shows
// that the cache is lost, "" for nothing. LostAt is then the time of this sample, unless it was shown within oneLoss
// before too.
func (s *Sample) Follow(earlier *Sample) (shown string) {
	s.LostAt, s.ShownAt = earlier.LostAt, earlier.ShownAt
	if shown = lossShown(&earlier.Snapshot, &s.Snapshot); shown == "" {
		return ""
	}
	if s.ShownAt == 0 || s.ScrapedAt-s.ShownAt >= oneLoss {
		s.LostAt = s.ScrapedAt
	}
	s.ShownAt = s.ScrapedAt
	return shown
}

// lossShown returns what shows that the cache which the engine had at one page was lost by the next, "" for nothing.
func lossShown(then, now *metrics.Snapshot) string {
	if a, b, ok := both(then, now, metrics.Started); ok && b > a+startSlack {
		return "its process has started anew"
	}
	for _, f := range [...]metrics.Field{
		metrics.PromptTokens, metrics.OutputTokens, metrics.PrefixQueries, metrics.PrefixHits, metrics.Served,
	} {
		a, b, ok := both(then, now, f)
		if a > b && (ok || now.Engine != metrics.AnyEngine && !now.Cut) { // some are there only once they count
			return "its counters have started anew"
		}
	}
	if a, b, ok := both(then, now, metrics.KVBlocks); ok && a != b {
		return "the size of its cache has changed"
	}
	if a, b, ok := both(then, now, metrics.Awake); ok && b < a {
		return "it was put to sleep"
	}
	return ""
}

// both returns a field of two pages, 0 where it is missing, and whether both have it.
func both(then, now *metrics.Snapshot, f metrics.Field) (a, b float64, ok bool) {
	a, ok1 := then.Value(f)
	b, ok2 := now.Value(f)
	return a, b, ok1 && ok2
}
