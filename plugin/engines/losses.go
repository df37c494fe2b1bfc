package engines

import (
	"time"

	"github.com/warmgate/warmgate/lb/engines"
	"github.com/warmgate/warmgate/plugin/discovery"
)

const (
	// goneAge is how long the last sample of an endpoint that is not listed is kept. While its engine restarts it may
	// not be, and it comes back with the same address.
	goneAge = time.Hour
	// maxGone is how many of those are kept in one cluster.
	maxGone = 256
)

// followCaches compares pages that were scraped with those before them. It returns in words which engines have lost
// their caches by that, and which seem to far too often.
func followCaches(scraped map[string]engines.Sample, all *discovery.EngineSamples) (lost, doubted []string) {
	for addr, r := range scraped {
		earlier, gone := all.Gone[addr]
		if !gone {
			earlier = all.By[addr]
		}
		if r.ScrapedAt <= earlier.ScrapedAt {
			continue
		}
		delete(all.Gone, addr)
		switch shown := r.Follow(&earlier); {
		case shown == "":
		case r.LostAt == r.ScrapedAt:
			lost = append(lost, addr+" has lost its cache: "+shown)
		default:
			doubted = append(doubted, addr+" seems to lose its cache more than once a minute ("+shown+
				"): its metrics are taken for those of several engines, and its cache for kept")
		}
		scraped[addr] = r
	}
	return lost, doubted
}

// forget drops the samples of endpoints that have been gone for too long, and the oldest of too many.
func forget(gone map[string]engines.Sample, now time.Duration) {
	for addr, r := range gone {
		if now-r.FreshAt > goneAge {
			delete(gone, addr)
		}
	}
	for len(gone) > maxGone {
		oldest := ""
		for addr, r := range gone {
			if oldest == "" || r.FreshAt < gone[oldest].FreshAt {
				oldest = addr
			}
		}
		delete(gone, oldest)
	}
}
