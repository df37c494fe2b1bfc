package queue_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// In a full queue a class is granted what it is owed: by its weight, with strict order a tenth once it is aged.
func TestAFullQueueStarvesNoClass(t *testing.T) {
	for _, strict := range []bool{false, true} {
		for _, load := range []float64{1.2, 2, 4} {
			t.Run(fmt.Sprintf("strict %v, %v times", strict, load), func(t *testing.T) {
				traffic, _ := newTraffic(1, 3*time.Second, 0.9)
				traffic.servers, traffic.places = 16, 16
				const capacity = 16 * 16 / 3.0
				high := interactive
				high.Reserved = 100
				set := func(v *visit) {
					v.wait.Length, v.wait.Reserved, v.wait.Strict = 1000, 100, strict
					if strict { // within 20 s too few can wait until they are aged
						v.wait.Max = 25 * time.Second
					}
				}
				traffic.span(time.Minute, load*capacity, high, set)
				traffic.span(time.Minute, 0.3*capacity, batch, set)
				served, all := 0, 0
				for i, f := range traffic.play(rules{}) {
					if f.placed < time.Hour+20*time.Second || f.placed > time.Hour+time.Minute {
						continue
					}
					if all++; traffic.visits[i].wait.Class.ID == batch.ID {
						served++
					}
				}
				owed := batch.Weight / (batch.Weight + interactive.Weight)
				if strict {
					owed = 0.1
				}
				if got := float64(served) / float64(all); got < 0.9*owed || got > 1.2*owed {
					t.Errorf("the lower class was granted %.3f of %d, it is owed %.3f", got, all, owed)
				} else {
					t.Logf("the lower class was granted %.3f of %d", got, all)
				}
			})
		}
	}
}

// span adds visits that come independently of each other for a span, n a second.
func (t *traffic) span(span time.Duration, n float64, class lb.Class, change func(*visit)) {
	t.comes(t.rng, 0, span, n, func() visit {
		v := t.visit(class, nil)
		change(&v)
		return v
	})
}
