package engines

import (
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/metrics"
)

// Sample is the metrics of one endpoint's engine at one time: the latest scrape, updated by later load reports.
type Sample struct {
	metrics.Snapshot
	At        time.Duration // time of the latest scrape or load report
	ScrapedAt time.Duration // time of the latest scrape: load reports contain a few fields only
	FreshAt   time.Duration // when the sample was last known to be up to date
	Inflight  lb.Load       // in flight on the endpoint at that time, over all owners
	Counted   bool          // Inflight is known
	Page      uint64        // digest of the scraped page, 0 for none
	Frozen    bool          // the page stands still, though the endpoint has answered: frozen.go
	LostAt    time.Duration // when the page showed that the cache is lost, 0 for never: lost.go
	ShownAt   time.Duration // when a page did so last, also where several engines answer in turn
}

// orZero returns a field, 0 if it is missing.
func (s *Sample) orZero(f metrics.Field) float64 {
	v, _ := s.Value(f)
	return v
}
