package queue

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// A class was passed while it waited, and has not been for long. One below it keeps a tenth of the grants from it if
// classes age, and nothing if they do not.
func TestPartBesideALowerClass(t *testing.T) {
	l := &line{classes: []class{
		{id: 1, rank: 0, weight: 1},
		{id: 2, rank: 1, weight: 1, waiting: 5, share: share{chances: 100, granted: 10}},
		{id: 3, rank: 2, weight: 1, waiting: 5},
	}}
	for aging, least := range map[time.Duration]float64{0: 0.99, time.Second: 0.89} {
		w := &lb.Wait{Max: time.Minute, Class: lb.Class{ID: 2, Rank: 1, Weight: 1}, Strict: true, Aging: aging}
		if p := l.partOfClass(7000, 1, w, 1); p.of < least || p.of > least+0.02 {
			t.Errorf("with an aging of %v its part is %v, want %v", aging, p.of, least+0.01)
		}
	}
}
