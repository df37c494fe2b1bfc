// Package topnames decides which of many names are told apart in statistics, and which are counted together as
// "other". Names come from clients, which can make up any number of them, and a gateway never frees a statistic: so
// only so many names ever have a label of their own, and one that has keeps it.
//
// Some names are pinned: an operator has written them down. Of the others only uses count for which a server has
// answered. The first names have their labels at once, since what is there from the beginning is mostly real; more
// names have one when they are used much. So a flood of names that are used a few times takes the first labels at most.
package topnames

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Other is the label of all names that have none of their own.
const Other = "other"

const (
	// MaxLength is how many bytes a name has at most that can be a label.
	MaxLength = 128
	// Much is how many uses of the latest window give a name a label of its own.
	Much = 64
	// window is of how many uses the latest half counts in full: then all counts are halved.
	window = 4096
	// counters is how many names are counted. A name is counted too low by window/counters at most: so one with two in
	// a hundred uses (Much/window + 1/counters) is found, whatever the others are.
	counters = 256
)

// Names are those of one kind, such as models.
type Names struct {
	first  int // labels that are left for the first names
	more   int // labels that are left for names that are used much
	own    map[string]bool
	pinned map[string]bool

	// of names without a label, by the algorithm Space-Saving
	counts []count
	at     map[string]int // in counts
	uses   int            // in the window
}

// count is how often a name was used: n times at most, n - over times at least.
type count struct {
	name    string
	n, over int
}

// New returns names of which the first so many have labels, and so many more by use.
func New(first, more int) *Names {
	return &Names{first: first, more: more, own: map[string]bool{}, at: map[string]int{}}
}

// Pin replaces the names that always have labels. Those that have one by now keep it.
func (n *Names) Pin(names []string) {
	n.pinned = make(map[string]bool, len(names))
	for _, name := range names {
		n.pinned[name] = isLabel(name)
	}
}

// IsPinned reports whether a name always has a label.
func (n *Names) IsPinned(name string) bool { return n.pinned[name] }

// Label returns the label of a name, as it is without another use.
func (n *Names) Label(name string) string {
	if n.own[name] || n.pinned[name] {
		return name
	}
	return Other
}

// Use notes that a name is used, and reports whether it has a label of its own. answered: a server has answered for it.
func (n *Names) Use(name string, answered bool) bool {
	switch {
	case n.own[name]:
		return true
	case n.pinned[name]:
		n.own[strings.Clone(name)] = true
		return true
	case !answered || n.first+n.more == 0 || !isLabel(name):
		return false
	case n.first > 0:
		n.first--
	case n.more == 0 || n.count(name) < Much:
		return false
	default:
		n.more--
		n.drop(n.at[name])
	}
	n.own[strings.Clone(name)] = true // its text may be a part of a large one
	return true
}

// count counts a use and returns how many there were at least.
func (n *Names) count(name string) int {
	if n.uses++; n.uses > window {
		n.halve()
	}
	i, ok := n.at[name]
	switch {
	case ok:
	case len(n.counts) < counters:
		i = len(n.counts)
		n.counts = append(n.counts, count{name: strings.Clone(name)})
		n.at[n.counts[i].name] = i
	default: // it takes over the lowest count, which may all have been of others
		i = n.lowest()
		c := &n.counts[i]
		delete(n.at, c.name)
		c.name, c.over = strings.Clone(name), c.n
		n.at[c.name] = i
	}
	c := &n.counts[i]
	c.n++
	return c.n - c.over
}

func (n *Names) lowest() int {
	low := 0
	for i := range n.counts {
		if n.counts[i].n < n.counts[low].n {
			low = i
		}
	}
	return low
}

// halve has older uses count for less.
func (n *Names) halve() {
	n.uses /= 2
	for i := len(n.counts) - 1; i >= 0; i-- {
		c := &n.counts[i]
		c.n, c.over = c.n/2, c.over/2
		if c.n == 0 {
			n.drop(i)
		}
	}
}

// drop forgets a count.
func (n *Names) drop(i int) {
	delete(n.at, n.counts[i].name)
	last := len(n.counts) - 1
	if i != last {
		n.counts[i] = n.counts[last]
		n.at[n.counts[i].name] = i
	}
	n.counts = slices.Delete(n.counts, last, last+1)
}

// isLabel reports whether a name can be the value of a label: short text without quotes and control characters, so that
// no page of statistics is spoilt by it, that is not taken for the label of the others.
func isLabel(name string) bool {
	if name == "" || name == Other || len(name) > MaxLength || !utf8.ValidString(name) {
		return false
	}
	for i := range len(name) {
		if c := name[i]; c < ' ' || c == 0x7f || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
