package endpoints

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/process"
	"github.com/warmgate/warmgate/plugin/process/processtest"
)

const scrapeEvery = time.Second

func fleetOf(n int) (list []lb.Endpoint) {
	for i := range n {
		list = append(list, lb.Endpoint{Addr: fmt.Sprintf("10.0.%d.%d:8000", i/250, i%250)})
	}
	return list
}

// scrapeRun is a scraper's life: engines that answer, or not, and time.
type scrapeRun struct {
	*scraper
	now     time.Duration
	fleet   []lb.Endpoint
	scrapes map[string][]time.Duration // when each engine was scraped
	answer  func(addr string) (after time.Duration, ok bool)
	coming  []func() bool // answers that are on their way; true: it has come
}

func scrapeFleet(n int) *scrapeRun {
	s := &scrapeRun{
		scraper: newScraper(nil, 1), now: time.Hour, fleet: fleetOf(n),
		scrapes: map[string][]time.Duration{},
	}
	s.answer = func(string) (time.Duration, bool) { return 0, true }
	return s
}

// run lets time pass in ticks.
func (s *scrapeRun) run(d time.Duration) {
	for end := s.now + d; s.now < end; s.now += process.TickPeriod {
		s.coming = slices.DeleteFunc(s.coming, func(f func() bool) bool { return f() })
		s.sweep()
		for _, addr := range s.due(s.now, scrapeEvery, "llm", s.fleet) {
			s.scrapes[addr] = append(s.scrapes[addr], s.now)
			after, ok := s.answer(addr)
			at := s.now + after
			s.coming = append(s.coming, func() bool {
				if s.now >= at {
					s.finished(s.now, scrapeEvery, "llm", addr, ok)
				}
				return s.now >= at
			})
		}
	}
}

// gaps returns the times between scrapes of an engine.
func (s *scrapeRun) gaps(i int) (gaps []time.Duration) {
	times := s.scrapes[s.fleet[i].Addr]
	for k := 1; k < len(times); k++ {
		gaps = append(gaps, times[k]-times[k-1])
	}
	return gaps
}

func TestScrapedOnceAnInterval(t *testing.T) {
	for _, n := range []int{1, spreadFrom - 1, spreadFrom, 500} {
		s := scrapeFleet(n)
		s.run(10 * scrapeEvery)
		for i := range s.fleet {
			if scraped := len(s.scrapes[s.fleet[i].Addr]); scraped < 9 || scraped > 10 {
				t.Fatalf("of %d engines, number %d was scraped %d times in 10 intervals", n, i, scraped)
			}
			for _, gap := range s.gaps(i) {
				if gap != scrapeEvery {
					t.Fatalf("of %d engines, number %d was scraped after %v", n, i, gap)
				}
			}
		}
	}
}

// Few engines are scraped at once, so that their samples are of the same moment. Many are not, because a tick that
// reads hundreds of pages takes long.
func TestManyEnginesAreSpread(t *testing.T) {
	const n = 1000
	s := scrapeFleet(n)
	s.run(2 * scrapeEvery)
	perTick := map[time.Duration]int{}
	for i := range s.fleet {
		perTick[s.scrapes[s.fleet[i].Addr][0]]++
	}
	if ticks := int(scrapeEvery / process.TickPeriod); len(perTick) < ticks {
		t.Errorf("%d engines are scraped in %d ticks of %d", n, len(perTick), ticks)
	}
	for at, scraped := range perTick {
		if scraped > n/4 {
			t.Errorf("%d of %d engines are scraped in one tick, at %v", scraped, n, at)
		}
	}
}

// An engine that does not answer, answers late, or without metrics is scraped less often; the times of the others'
// scrapes do not change.
func TestSickEngineDelaysNoOther(t *testing.T) {
	for name, sick := range map[string]struct {
		after time.Duration
		ok    bool
	}{
		"refuses": {0, false}, "times out": {scrapeEvery, false}, "never answers": {time.Hour, false},
		"is slow": {700 * time.Millisecond, true},
	} {
		well, ill := scrapeFleet(8), scrapeFleet(8)
		ill.answer = func(addr string) (time.Duration, bool) {
			if addr == ill.fleet[3].Addr {
				return sick.after, sick.ok
			}
			return 0, true
		}
		const intervals = 60
		well.run(intervals * scrapeEvery)
		ill.run(intervals * scrapeEvery)
		for i := range ill.fleet {
			if i != 3 && !slices.Equal(ill.scrapes[ill.fleet[i].Addr], well.scrapes[well.fleet[i].Addr]) {
				t.Errorf("%s: engine %d is scraped after %v", name, i, ill.gaps(i))
			}
		}
		gaps := ill.gaps(3)
		switch {
		case sick.ok:
			if len(gaps) < intervals-2 {
				t.Errorf("%s: scraped %d times in %d intervals", name, len(gaps)+1, intervals)
			}
		case name == "never answers": // the gateway reports every timeout; should it not, nothing hangs
			if longest := slices.Max(gaps); longest > scrapeEvery+scrapeSlack+process.TickPeriod {
				t.Errorf("%s: scraped again after %v", name, longest)
			}
		default:
			if !slices.IsSorted(gaps) || gaps[0] > 2*scrapeEvery || gaps[len(gaps)-1] < scrapeBackoff ||
				gaps[len(gaps)-1] > scrapeBackoff+scrapeEvery+process.TickPeriod {
				t.Errorf("%s: scraped after %v", name, gaps)
			}
		}
	}
}

func TestRecoveredEngineIsScrapedAsBefore(t *testing.T) {
	s := scrapeFleet(2)
	ok := false
	s.answer = func(addr string) (time.Duration, bool) { return 0, ok || addr != s.fleet[0].Addr }
	s.run(60 * scrapeEvery)
	ok = true
	s.run(scrapeBackoff + scrapeEvery)
	before := len(s.scrapes[s.fleet[0].Addr])
	s.run(10 * scrapeEvery)
	if got := len(s.scrapes[s.fleet[0].Addr]) - before; got < 9 || got > 10 {
		t.Errorf("an engine that is well again is scraped %d times in 10 intervals", got)
	}
	ok, before = false, len(s.scrapes[s.fleet[0].Addr])
	s.run(3 * scrapeEvery)
	if got := len(s.scrapes[s.fleet[0].Addr]) - before; got < 2 {
		t.Errorf("after its first new failures it is scraped %d times in 3 intervals", got)
	}
}

func TestScraperForgetsGoneEndpoints(t *testing.T) {
	s := scrapeFleet(100)
	s.run(2 * scrapeEvery)
	s.fleet = s.fleet[:10]
	s.run(2 * process.TickPeriod)
	if n := len(s.scraper.engines); n != 10 {
		t.Errorf("%d engines are kept, of which 10 are there", n)
	}
	// An engine is kept until the answer to its last scrape is there, and the answer of an engine that is not kept is
	// ignored.
	s.answer = func(string) (time.Duration, bool) { return 500 * time.Millisecond, true }
	s.run(scrapeEvery)
	s.fleet = nil
	s.run(2 * scrapeEvery)
	s.finished(s.now, scrapeEvery, "llm", "10.0.0.1:8000", false)
	if n := len(s.scraper.engines); n != 0 {
		t.Errorf("%d engines are kept, of which none is there", n)
	}
}

// The VM of the main thread scrapes as long as it lives. Then a worker's VM does, and never two at the same time.
func TestOneVMScrapes(t *testing.T) {
	kv := &processtest.KV{Cells: map[string]processtest.Cell{}}
	if err := process.Prepare(kv); err != nil {
		t.Fatal(err)
	}
	var vms []*scraper
	for i := range 3 {
		vms = append(vms, newScraper(kv, uint64(i+1)))
	}
	now := time.Hour
	leaders := func(living []*scraper, d time.Duration) map[uint64]int {
		ticks := map[uint64]int{}
		for end := now + d; now < end; now += process.TickPeriod {
			n := 0
			for _, s := range living {
				if s.leadsScrapes(now, s != vms[0], false) {
					ticks[s.leader.ID]++
					n++
				}
			}
			if n > 1 {
				t.Fatalf("%d VMs scrape at the same time", n)
			}
		}
		return ticks
	}
	if got := leaders(vms, 10*time.Second); got[1] < 99 || len(got) != 1 {
		t.Errorf("ticks at which each VM scraped: %v, want all by the main thread's", got)
	}
	vms[1].engines["llm 10.0.0.1:8000"] = &engineSchedule{busy: true}
	if got := leaders(vms[1:], (process.LeaderTerms-1)*scraperTerm+scraperTerm-process.TickPeriod); len(got) != 0 {
		t.Errorf("while the main thread may still be there, others scrape: %v", got)
	}
	if got := leaders(vms[1:], 10*time.Second); len(got) != 1 || got[2] < 90 {
		t.Errorf("ticks at which each VM scraped: %v, want the first worker's", got)
	}
	if n := len(vms[1].engines); n != 0 {
		t.Errorf("%d scrapes of an earlier time count as open", n)
	}
	kv.Broken = errors.New("no memory")
	if got := leaders(vms[1:], 5*time.Second); got[2] > 10 || got[3] != 0 {
		t.Errorf("without shared memory each VM scrapes: %v", got)
	}
}

// The main thread cannot look up in Redis what is in flight, so when that is needed a worker's VM takes over at once.
func TestWorkerScrapesWithRedis(t *testing.T) {
	kv := &processtest.KV{Cells: map[string]processtest.Cell{}}
	if err := process.Prepare(kv); err != nil {
		t.Fatal(err)
	}
	first, worker := newScraper(kv, 1), newScraper(kv, 2)
	now := time.Hour
	if !first.leadsScrapes(now, false, false) || worker.leadsScrapes(now, true, false) {
		t.Fatal("the main thread's VM does not scrape")
	}
	now += process.TickPeriod
	if first.leadsScrapes(now, false, true) {
		t.Error("the main thread's VM scrapes, and it is not known what was in flight")
	}
	if !worker.leadsScrapes(now, true, true) {
		t.Error("the worker's VM waits")
	}
	now += process.TickPeriod
	if first.leadsScrapes(now, false, true) || !worker.leadsScrapes(now, true, true) {
		t.Error("the worker's VM does not go on")
	}
}

func TestPortOfMetrics(t *testing.T) {
	for _, c := range []struct {
		addr string
		port int
		want string
	}{
		{"10.0.0.1:8000", 0, "10.0.0.1:8000"},
		{"10.0.0.1:8000", 9400, "10.0.0.1:9400"},
		{"[2001:db8::1]:8000", 9400, "[2001:db8::1]:9400"},
		{"envoy://connect_originate/10.0.0.1:8000", 0, "10.0.0.1:8000"},
		{"envoy://connect_originate/[2001:db8::1]:8000", 9400, "[2001:db8::1]:9400"},
	} {
		if got := withPort(c.addr, c.port); got != c.want {
			t.Errorf("%s at port %d is %s, want %s", c.addr, c.port, got, c.want)
		}
	}
}
