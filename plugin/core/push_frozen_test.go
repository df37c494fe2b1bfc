package core

import (
	"fmt"
	"testing"
	"time"

	"github.com/warmgate/warmgate/plugin/endpoints"
	"github.com/warmgate/warmgate/plugin/stats"
)

// frozenLevels are how many requests run and wait on a page that stands still.
var frozenLevels = [][2]int{{0, 0}, {3, 0}, {crowdSlots, 0}, {crowdSlots, 3}, {crowdSlots, 20}, {5, 1}}

// A page of metrics that stands still, whatever it shows, neither lifts the limit that metrics have shown before nor
// lowers it: on one server or on all, whether it counts tokens or has gauges alone, and whoever reads it.
func TestPushHoldsThoughPagesStandStill(t *testing.T) {
	for _, level := range frozenLevels {
		for _, counts := range []bool{true, false} {
			for _, stored := range []bool{true, false} {
				for _, gone := range []int{1, 3} {
					name := fmt.Sprintf("%d+%d/counts=%v/stored=%v/%d of 3", level[0], level[1], counts, stored, gone)
					t.Run(name, func(t *testing.T) {
						c := &crowd{
							fakeDriver: startFake(t, 2, 3, overloadConfig(t, nil)),
							streamed:   level[0] == crowdSlots, counts: counts,
						}
						c.stored = stored
						if level == [2]int{5, 1} { // once it is news: one waits though only five run
							c.lost = gone
						}
						frozen := func(int, int) string {
							if !counts {
								return fullPage(level[0], level[1])
							}
							page := countingPage(level[0], level[1], 4000)
							if gone == 1 { // what is not the engine's moves
								page += fmt.Sprintf("process_cpu_seconds_total %d\n", c.now)
							}
							return page
						}
						testStall(t, c, frozen, gone, 3*time.Second, 20*time.Second)
					})
				}
			}
		}
	}
}

// A page whose gauges stay the same while it counts is one that goes on: none is taken for one that stands still, and
// the limit follows what it shows. So do the requests of other clients, which no gateway has counted.
func TestPushLearnsFromPagesThatCount(t *testing.T) {
	for _, stored := range []bool{true, false} {
		c := &crowd{fakeDriver: startFake(t, 2, 3, overloadConfig(t, nil)), streamed: true, counts: true, gone: 3}
		c.stored = stored
		c.servers, c.tokens = make([][]*servedByIt, 3), map[int]int{}
		// Whatever runs there, the page shows a batch in which there is room, then others' requests.
		c.page = func(server, running, waiting int) string {
			return countingPage(running, 0, c.tokens[server])
		}
		c.run(30 * time.Second)
		if c.most < 4*crowdSlots {
			t.Errorf("stored %v: at most %d in flight, though pages show that none waits", stored, c.most)
		}
		c.page = func(server, running, waiting int) string {
			return countingPage(crowdSlots, running+waiting+crowdSlots, c.tokens[server])
		}
		c.run(60 * time.Second)
		c.run(20 * time.Second)
		if c.most > crowdSlots/2 {
			t.Errorf("stored %v: at most %d in flight beside %d of others", stored, c.most, 2*crowdSlots)
		}
		if n := c.Counter(stats.Scrapes + ";result=" + endpoints.ScrapeFrozen); n > 0 {
			t.Errorf("stored %v: %d pages that count are taken for frozen ones", stored, n)
		}
		if n := c.Gauge(stats.Fresh + ";cluster=" + fakeCluster); n != 3 {
			t.Errorf("stored %v: %d fresh", stored, n)
		}
	}
}
