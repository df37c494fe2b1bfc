package queuecheck

import (
	"maps"
	"math"
	"strconv"
	"time"
)

// span is a stretch of the history in which the same classes wait.
type span struct {
	from    time.Duration
	classes map[string]bool
	served  map[string]float64
	grants  int
}

// note counts a grant while the classes wait. One to a request that has waited for its aging may be out of turn, and
// ends the stretch.
func (c *checker) note(s *span, g *record, rivals []*record) {
	classes := map[string]bool{g.Class: true}
	for _, w := range rivals {
		classes[w.Class] = true
	}
	aged := g.aged(g.ended + c.Slack)
	if aged || !maps.Equal(classes, s.classes) {
		c.closeSpan(s, g.ended)
		*s = span{from: g.ended, classes: classes, served: map[string]float64{}}
	}
	if !aged {
		s.served[g.Class] += g.cost()
		s.grants++
	}
}

// closeSpan compares the shares of a stretch that is long enough with the weights.
func (c *checker) closeSpan(s *span, at time.Duration) {
	if c.Strict || c.Share <= 0 || len(s.classes) < 2 || s.grants < c.MinGrants {
		return
	}
	total, weights := 0.0, 0.0
	for class := range s.classes {
		total += s.served[class]
		weights += c.Weights[class]
	}
	for class := range s.classes {
		got, want := s.served[class]/total, c.Weights[class]/weights
		if math.Abs(got/want-1) > c.Share {
			c.report(RuleShare, at, 0, "class "+class+" was served "+strconv.FormatFloat(got, 'f', 4, 64)+" since "+
				s.from.String()+", its weight is "+strconv.FormatFloat(want, 'f', 4, 64))
		}
	}
}
