package queuecheck

import "strconv"

// perAged is how many tokens go to others, in turns by class, for each that an aged class may have out of turn.
const perAged = 9

// outing is what a class was granted while a class that goes before it waited, since it began to wait.
type outing struct{ out, usual, largest float64 }

// lag is what was granted while a class waited whose requests have waited for their aging and could have had it.
type lag struct{ others, own, largest float64 }

// ages is what aging has done so far, by class.
type ages struct {
	outings map[string]*outing
	lags    map[string]*lag
}

// checkAging checks that aged classes have their part of what is granted: no more out of turn, and no less.
func (c *checker) checkAging(a *ages, g *record, rivals, waiting []*record) {
	if a.outings == nil {
		a.outings, a.lags = map[string]*outing{}, map[string]*lag{}
	}
	higher := false
	for _, w := range rivals {
		higher = higher || c.Strict && c.Weights[w.Class] > c.Weights[g.Class]
	}
	c.checkOuting(a, g, waiting, higher)
	c.checkLag(a, g, rivals)
}

// checkOuting checks what is granted to a class while a strictly higher one waits.
func (c *checker) checkOuting(a *ages, g *record, waiting []*record, higher bool) {
	waits, isAged := map[string]bool{}, false
	for _, w := range waiting {
		waits[w.Class] = true
		isAged = isAged || w.Class == g.Class && w.aged(g.ended+c.Slack)
	}
	for class := range c.Weights {
		o := a.outings[class]
		if o == nil || !waits[class] {
			o = &outing{}
			a.outings[class] = o
		}
		o.largest = max(o.largest, g.cost())
		switch {
		case !higher:
			o.usual += g.cost()
		case class == g.Class:
			o.out += g.cost()
			if !isAged || o.out > o.usual/perAged+2*o.largest {
				out, usual := strconv.FormatFloat(o.out, 'f', 1, 64), strconv.FormatFloat(o.usual, 'f', 1, 64)
				c.report(RuleStrict, g.ended, g.id, "is granted "+g.at+" before a higher class, out of turn by "+out+
					" after "+usual+" in turn")
			}
		}
	}
}

// checkLag checks that no aged class is passed by more than documented.
func (c *checker) checkLag(a *ages, g *record, rivals []*record) {
	passed := map[string]*record{}
	for _, w := range rivals {
		if w.aged(g.ended-c.Slack) && passed[w.Class] == nil {
			passed[w.Class] = w
		}
	}
	for class := range c.Weights {
		w, l := passed[class], a.lags[class]
		if w == nil && class != g.Class {
			delete(a.lags, class)
			continue
		}
		if l == nil {
			l = &lag{}
			a.lags[class] = l
		}
		l.largest = max(l.largest, g.cost())
		if class == g.Class {
			l.own += g.cost()
			continue
		}
		l.others += g.cost()
		l.largest = max(l.largest, w.cost())
		m := float64(max(len(c.Weights)-1, 1))
		if l.others > (perAged+1)*m*(l.own+3*l.largest) {
			c.overtaken(RuleAging, w, g)
		}
	}
}
