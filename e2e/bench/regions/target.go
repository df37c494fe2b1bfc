package regions

import (
	"slices"

	"github.com/warmgate/warmgate/e2e/bench"
)

// unmet returns why the targets are not met. It begins with what takes the meaning from the figures.
func (rep *report) unmet(l bench.Line) bench.Reasons {
	why := rep.unplayed()
	why.If(rep.settings.scale != 1 || rep.settings.rtt != apart, "another load or distance than that of the targets")
	why.If(l["errors"] != 0, "%d requests failed", l["errors"])
	for i := range rep.cells {
		c := &rep.cells[i]
		ours := rep.Of(c.key(), rep.settings.Own)
		why.If(c.load == skewed && len(ours) > 0 && len(allForwarded(ours)) == 0, "%s: nothing was forwarded", c.key())
		long := allUnanswered(slices.Concat(ours, rep.Of(c.key(), rep.settings.Own+nine))).long
		why.If(long > 0, "%s: %d requests without a token after %v", c.key(), long, tooLong)
	}
	for _, t := range l.Missed(targets) {
		why.If(true, "%s is %.3f, not %g", t.Name, l.Value(t.Name), t.Limit)
	}
	return why
}

// unplayed names the cells that a target needs and that were not played, and, in those that were, the contenders.
func (rep *report) unplayed() (why bench.Reasons) {
	all, _ := cells("", "", 1) // of no names all are known
	for i := range all {
		if !slices.ContainsFunc(rep.cells, func(c cell) bool { return c.key() == all[i].key() }) {
			why = append(why, all[i].key()+" was not played")
			continue
		}
		for _, name := range needed(&all[i], rep.settings.Own) {
			why.If(len(rep.Of(all[i].key(), name)) == 0, "%s: %s was not played", all[i].key(), name)
		}
	}
	return why
}

// needed returns whom the targets of the own contender need in a cell.
func needed(at *cell, own string) []string {
	list := []string{own}
	if at.load == skewed {
		list = append(list, own+nine)
	}
	for _, c := range contenders(apart) {
		if !c.asked && !c.added && c.playedOn(at) && !slices.Contains(list, c.name) {
			list = append(list, c.name)
		}
	}
	return list
}
