package endpoints

import (
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/process"
)

const (
	// scrapeSlack is how much later than its timeout an answer may still come.
	scrapeSlack = time.Second
	// scraperTerm is how often the leadership is renewed. Samples are stale after a few seconds.
	scraperTerm = 500 * time.Millisecond
	// scrapeBackoff is the longest interval at which an engine that does not answer is scraped.
	scrapeBackoff = 8 * time.Second
	// spreadFrom is the number of endpoints from which they are scraped one after another, not all at once.
	spreadFrom = 32
)

// scraper decides which engines are scraped, and when: each on a schedule of its own, so that one that is slow delays
// no other.
type scraper struct {
	leader  process.Leadership
	leads   bool
	renewed time.Duration
	engines map[string]*engineSchedule // by cluster and address
}

// engineSchedule is when one engine is scraped.
type engineSchedule struct {
	next        time.Duration // when to scrape it
	requestedAt time.Duration // of the last scrape
	busy        bool
	failures    int // in a row
	listed      bool
}

func newScraper(kv lb.KV, id uint64) *scraper {
	leader := process.Leadership{KV: kv, ID: id, Key: process.KeyScraper, Slack: scraperTerm}
	return &scraper{leader: leader, engines: map[string]*engineSchedule{}}
}

// leadsScrapes reports whether this VM is the one that scrapes. shared: what is in flight is counted in Redis. Then it
// must be a worker's VM, because the tunnel is an internal listener, which Envoy's main thread cannot reach.
func (s *scraper) leadsScrapes(now time.Duration, serves, shared bool) bool {
	if shared && !serves {
		if s.leads {
			s.leads = false
			s.leader.Resign()
		}
		return false
	}
	if !s.leads || now-s.renewed >= scraperTerm {
		var taken bool
		if s.leads, taken = s.leader.Lead(now, scraperTerm, serves); taken {
			clear(s.engines)
		}
		s.renewed = now
	}
	return s.leads
}

// due returns the endpoints of a cluster that are to be scraped now, and schedules their next scrapes.
func (s *scraper) due(now, interval time.Duration, cluster string, endpoints []lb.Endpoint) []string {
	var out []string
	for i := range endpoints {
		addr := endpoints[i].Addr
		key := cluster + " " + addr
		a := s.engines[key]
		if a == nil {
			a = &engineSchedule{next: now}
			if len(endpoints) >= spreadFrom {
				a.next += spread(addr, interval)
			}
			s.engines[key] = a
		}
		a.listed = true
		if now < a.next || a.busy && now-a.requestedAt < interval+scrapeSlack {
			continue
		}
		if a.next += interval; a.next <= now {
			a.next = now + interval
		}
		a.busy, a.requestedAt = true, now
		out = append(out, addr)
	}
	return out
}

// spread returns a time within the interval, the same for the same address.
func spread(addr string, interval time.Duration) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(addr))
	return time.Duration(float64(h.Sum32()) / (1 << 32) * float64(interval))
}

// finished notes the end of a scrape: ok if the page could be used.
func (s *scraper) finished(now, interval time.Duration, cluster, addr string, ok bool) {
	a := s.engines[cluster+" "+addr]
	if a == nil {
		return
	}
	a.busy = false
	if ok {
		a.failures = 0
		return
	}
	a.failures++
	a.next = now + min(interval<<min(a.failures-1, 10), max(scrapeBackoff, interval))
}

// sweep removes the endpoints that are no longer listed.
func (s *scraper) sweep() {
	for key, a := range s.engines {
		if !a.listed && !a.busy {
			delete(s.engines, key)
		}
		a.listed = false
	}
}

// withPort returns the address with another port, 0 for its own: of an endpoint behind an internal listener, its id,
// which is the address that the tunnel leads to.
func withPort(addr string, port int) string {
	addr = addr[strings.LastIndexByte(addr, '/')+1:]
	if port == 0 {
		return addr
	}
	return addr[:strings.LastIndexByte(addr, ':')+1] + strconv.Itoa(port)
}
