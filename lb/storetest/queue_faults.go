package storetest

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/queuecheck"
)

// Failer is a Backend whose writes can fail: f is called for each, which fails with its error. nil: none fails.
type Failer interface {
	Fail(f func() error)
}

var errLost = errors.New("storetest: the write is lost")

// testQueueFaults lets writes fail while requests wait: places and grants may come later, and none is lost, given twice
// or above a cap.
func testQueueFaults(t *testing.T, l *line) {
	b, ok := l.Backend.(Failer)
	if !ok {
		t.Skip("writes of this backend do not fail")
	}
	histories, steps := 20, 1000
	if testing.Short() {
		histories = 4
	}
	for seed := range uint64(histories) {
		if seed > 0 {
			l.Backend = l.open()
			b = l.Backend.(Failer)
		}
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			fresh := &line{world: &world{t: t, open: l.open, Backend: l.Backend, now: time.Hour}, faults: true}
			c := &chaos{
				line: fresh, rng: rand.New(rand.NewPCG(seed, 8)), moved: map[*asked]string{}, prompts: seed%3 == 1,
			}
			c.begin()
			for range steps {
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
