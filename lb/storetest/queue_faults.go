package storetest

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/queuecheck"
)

var errLost = errors.New("storetest: the write is lost")

// testQueueFaults lets writes fail while requests wait: places and grants may come later, and none is lost, given twice
// or above a cap.
func testQueueFaults(t *testing.T, l *line) {
	if _, ok := l.Backend.(Failer); !ok {
		t.Skip("writes of this backend do not fail")
	}
	l.histories(20, 4, func(fresh *line, seed uint64) {
		b := fresh.Backend.(Failer)
		c := &chaos{
			line: fresh, rng: rand.New(rand.NewPCG(seed, 8)), moved: map[*asked]string{}, prompts: seed%3 == 1,
		}
		c.faults = true
		c.begin()
		for range 1000 {
			b.Fail(func() error {
				if c.rng.IntN(10) == 0 {
					return errLost
				}
				return nil
			})
			c.step()
			c.poll()
			b.Fail(nil)
		}
		c.recover()
		c.undisturbed(c.audit)
		c.undisturbed(c.end)
		c.checkKept()
	})
}

// recover lets time pass without faults, until what has failed was tried again.
func (c *chaos) recover() {
	c.faults = false
	for range int((TTL + 2*time.Second) / (100 * time.Millisecond)) {
		c.pass(100 * time.Millisecond)
		c.undisturbed(c.poll)
	}
	c.asked = slices.DeleteFunc(c.asked, func(r *asked) bool { return !r.waits() && r.err != nil })
}

// checkKept checks the rules that hold whatever is late. Where a lease is whose move may not have been written is
// unknown: for the caps it is nowhere from then on.
func (c *chaos) checkKept() {
	moved := map[uint64]bool{}
	c.history = slices.DeleteFunc(c.history, func(e queuecheck.Event) bool {
		again := moved[e.ID] && (e.Kind == queuecheck.Moved || e.Kind == queuecheck.Released)
		moved[e.ID] = moved[e.ID] || e.Kind == queuecheck.Moved
		return again
	})
	for i := range c.history {
		if e := &c.history[i]; e.Kind == queuecheck.Moved {
			e.Kind = queuecheck.Released
		}
	}
	for _, v := range queuecheck.Check(c.history, queuecheck.Rules{}) {
		switch v.Rule {
		case queuecheck.RuleOnce, queuecheck.RuleLost, queuecheck.RuleAllowed, queuecheck.RuleCap:
			c.t.Error(v)
		}
	}
}
