package storetest

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/queuecheck"
)

// testQueueRandom runs reservations, releases, departures, amendments and crashes in random order, judges the order of
// grants, and compares the totals with what the owners hold.
func testQueueRandom(_ *testing.T, l *line) {
	steps := 1000
	if testing.Short() {
		steps /= 2
	}
	l.histories(80, 8, func(fresh *line, seed uint64) {
		c := &chaos{
			line: fresh, rng: rand.New(rand.NewPCG(seed, 7)), moved: map[*asked]string{},
			strict: seed%2 == 1, prompts: seed%3 == 1, crashes: seed%4 == 3, tokens: seed%5 < 2,
		}
		c.run(steps)
	})
}

func (c *chaos) run(steps int) {
	c.begin()
	for step := range steps {
		c.step()
		c.poll()
		c.undisturbed(c.poll)
		if step%50 == 49 {
			c.undisturbed(c.audit)
		}
	}
	c.undisturbed(c.end)
	const late = 150 * time.Millisecond
	rules := queuecheck.Rules{Strict: c.strict, Late: late, Idle: late, Tenants: 4000}
	if c.crashes { // what a dead owner was granted, and when that was returned, is not in the history
		rules.Idle, rules.Tenants = 0, 0
	}
	c.check(rules)
}
