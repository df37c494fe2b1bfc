package main

import (
	"encoding/binary"
	"slices"
)

// layout is how a function is written anew. Regions stay in their order. A jump forward leaves a block that ends where
// the region begins. A jump back begins a loop again; where that cannot be, because code jumps or resumes into the
// middle of the loop, it goes through the table as before.
type layout struct {
	*flow
	loops   []span       // sorted, the outer one first
	entries map[int]bool // the numbers that the function is called with, and those of jumps through the table
	again   map[int]bool // the regions to which jumps go back through the table
}

// span is a loop: its first and its last region.
type span struct{ first, last int }

func (s span) has(region int) bool { return s.first <= region && region <= s.last }

// inside reports whether a region is in the loop but not its beginning: only the loop's own code can jump there.
func (s span) inside(region int) bool { return s.first < region && region <= s.last }

// edge is a jump between regions.
type edge struct{ from, to, number int }

func (f *flow) edges() (all []edge) {
	for from, r := range f.regions {
		for _, p := range r.pieces {
			if p.jump == always || p.jump == onCondition {
				all = append(all, edge{from, f.region(p.number), p.number})
			}
		}
		if r.next != nowhere && r.next != from+1 && r.next < len(f.regions) {
			all = append(all, edge{from, r.next, slices.Index(f.table, r.next)})
		}
	}
	return all
}

// lay finds a layout for a function that is called with the numbers of entries.
func (f *flow) lay(entries map[int]bool) *layout {
	f.rotate(entries)
	l := &layout{flow: f, entries: entries, again: map[int]bool{}}
	edges := f.edges()
	for {
		l.loops = spans(edges, l.again)
		bad := l.entered(edges)
		if len(bad) == 0 {
			return l
		}
		for region := range bad {
			l.again[region] = true
		}
		for _, e := range edges {
			if bad[e.to] && e.from >= e.to {
				l.entries[e.number] = true
			}
		}
	}
}

// spans returns the loops that jumps back make, except those to some regions. Two loops that overlap become one in the
// other.
func spans(edges []edge, except map[int]bool) []span {
	lasts := map[int]int{}
	for _, e := range edges {
		if e.from >= e.to && !except[e.to] {
			lasts[e.to] = max(lasts[e.to], e.from)
		}
	}
	all := make([]span, 0, len(lasts))
	for first, last := range lasts {
		all = append(all, span{first, last})
	}
	slices.SortFunc(all, func(a, b span) int { return a.first - b.first })
	for i := len(all) - 1; i >= 0; i-- {
		for j := i + 1; j < len(all) && all[j].first <= all[i].last; j++ {
			all[i].last = max(all[i].last, all[j].last)
		}
	}
	return all
}

// entered returns the first regions of the loops into whose middle something leads.
func (l *layout) entered(edges []edge) map[int]bool {
	bad := map[int]bool{}
	for _, s := range l.loops {
		for number := range l.entries {
			if s.inside(l.region(number)) {
				bad[s.first] = true
			}
		}
		for _, e := range edges {
			if e.from < s.first && s.inside(e.to) {
				bad[s.first] = true
			}
		}
	}
	return bad
}

// A label is what a branch leads to: the end of a block before a region, or one of these.
const (
	labelLoop   = -1 - iota // less one for each region: the loop that begins with it
	labelAgain  = -1 << 20  // the loop around all regions
	labelUnwind = -1 << 21  // the end of the block around all
)

// writer writes a function.
type writer struct {
	*layout
	out    []byte
	labels []int  // that are open, the innermost last
	wanted []bool // the regions to which branches lead forward
}

// encode returns the body of the function.
func (l *layout) encode() []byte {
	w := &writer{layout: l, out: slices.Clone(l.head), wanted: make([]bool, len(l.regions)+1)}
	w.want()
	if w.unwinds {
		w.open(opBlock, labelUnwind)
	}
	if len(w.again) > 0 {
		w.open(opLoop, labelAgain)
	}
	w.openBlocks(span{-1, len(w.regions)})
	w.dispatch()
	for k := range w.regions {
		w.region(k)
	}
	w.closeTo(len(w.regions))
	if len(w.again) > 0 {
		w.close()
	}
	w.out = append(w.out, opUnreachable)
	if w.unwinds {
		w.close()
		w.out = append(w.out, opI32Const, 1)
	}
	return append(w.out, opEnd)
}

// want notes which regions need a block that ends before them. The one behind the last stands for what is never
// reached.
func (w *writer) want() {
	for _, e := range w.edges() {
		if e.to > e.from {
			w.wanted[e.to] = true
		}
	}
	if !w.dispatches() {
		return
	}
	for number := range w.entries {
		w.wanted[w.flow.region(number)] = true
	}
	w.wanted[len(w.regions)] = true
}

// dispatches reports whether the function begins elsewhere than in its first region.
func (w *writer) dispatches() bool {
	for number := range w.entries {
		if w.flow.region(number) != 0 {
			return true
		}
	}
	return false
}

func (w *writer) open(op byte, label int) {
	w.out = append(w.out, op, void)
	w.labels = append(w.labels, label)
}

func (w *writer) close() {
	w.out = append(w.out, opEnd)
	w.labels = w.labels[:len(w.labels)-1]
}

// top returns the innermost label, labelUnwind if there is none.
func (w *writer) top() int {
	if len(w.labels) == 0 {
		return labelUnwind
	}
	return w.labels[len(w.labels)-1]
}

// closeTo ends the block before a region.
func (w *writer) closeTo(region int) {
	if w.top() == region {
		w.close()
	}
}

// openBlocks opens those that are needed inside a loop, but in no loop in it.
func (w *writer) openBlocks(s span) {
	for k := s.last; k > s.first; k-- {
		if w.wanted[k] && !slices.ContainsFunc(w.loops, func(l span) bool {
			return l.first > s.first && l.inside(k)
		}) {
			w.open(opBlock, k)
		}
	}
}

// dispatch begins in the region of the number that the function is called with.
func (w *writer) dispatch() {
	if !w.dispatches() {
		return
	}
	var list []int
	for number := range w.entries {
		for len(list) <= number {
			list = append(list, w.never(len(list)))
		}
		list[number] = w.flow.region(number)
	}
	w.out = append(w.out, opLocalGet, 0, opBrTable)
	w.out = binary.AppendUvarint(w.out, uint64(len(list)))
	for _, region := range append(list, len(w.regions)) {
		w.out = binary.AppendUvarint(w.out, w.depth(region))
	}
}

// never returns where a number leads with which the function is not called. The first region needs no entry of its own:
// a goroutine's first return address, which is computed (runtime.goexit and 1), leads there, too.
func (w *writer) never(number int) int {
	if w.flow.region(number) == 0 {
		return 0
	}
	return len(w.regions)
}

// depth returns how many blocks a branch to a label leaves.
func (w *writer) depth(label int) uint64 {
	for i := len(w.labels) - 1; i >= 0; i-- {
		if w.labels[i] == label {
			return uint64(len(w.labels) - 1 - i)
		}
	}
	panic("a branch to a label that is not open")
}

func (w *writer) region(k int) {
	w.closeTo(k)
	for _, s := range w.loops {
		if s.first == k {
			w.open(opLoop, labelLoop-k)
			w.openBlocks(s)
		}
	}
	for _, p := range w.regions[k].pieces {
		w.out = append(w.out, p.code...)
		w.jump(k, p)
	}
	switch next := w.regions[k].next; {
	case next == nowhere, next == k+1:
	case next == len(w.regions):
		w.out = append(w.out, opUnreachable)
	default:
		w.jump(k, piece{jump: always, number: slices.Index(w.table, next)})
	}
	for _, s := range slices.Backward(w.loops) {
		if s.last == k {
			w.close()
		}
	}
}

func (w *writer) jump(from int, p piece) {
	op := byte(opBr)
	if p.jump == onCondition || p.jump == unwindOnCondition {
		op = opBrIf
	}
	var label int
	switch p.jump {
	case none:
		return
	case unwind, unwindOnCondition:
		label = labelUnwind
	default:
		label = w.flow.region(p.number)
		switch {
		case label > from:
		case w.again[label]:
			w.out = appendInt(append(w.out, opI32Const), int64(p.number))
			w.out = append(w.out, opLocalSet, 0)
			label = labelAgain
		default:
			label = labelLoop - label
		}
	}
	w.out = binary.AppendUvarint(append(w.out, op), w.depth(label)+uint64(p.inside))
}
