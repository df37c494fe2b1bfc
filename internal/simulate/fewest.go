package simulate

import "slices"

// Fewest returns the run of a contender with the fewest engines, of each pool of the layout the first ones, by which
// the users of every region are served well, and true; if all engines do not suffice, the run with all, and false. They
// are found by bisection, as if more engines were never worse: regions that help each other have all the same part of
// theirs, others as few as each needs.
func (l *Layout) Fewest(
	c *Contender, play func(l *Layout) (*Result, error), well func(of *Result) bool,
) (*Result, bool, error) {
	s := search{layout: l, play: play, well: well}
	most := 0
	for i := range l.Pools {
		most += len(l.Pools[i].Engines)
	}
	s.spans = []span{{min(len(l.Pools), most), most}}
	if l.RTT != nil && (c.Config == nil || !c.Config.Regions.Forwards()) {
		s.apart, s.spans = true, nil
		for i := range l.Pools {
			s.spans = append(s.spans, span{1, len(l.Pools[i].Engines)})
		}
	}
	return s.run()
}

// search is a bisection: of the engines of all pools, or of each apart.
type search struct {
	layout *Layout
	play   func(l *Layout) (*Result, error)
	well   func(of *Result) bool
	apart  bool
	spans  []span
}

// span is between which numbers of engines the fewest one is.
type span struct{ least, most int }

func (s *search) run() (*Result, bool, error) {
	numbers := make([]int, len(s.spans))
	for i := range s.spans {
		numbers[i] = s.spans[i].most
	}
	best, err := s.play(s.layout.first(s.counts(numbers)))
	if err != nil || !s.suffice(best) {
		return best, false, err
	}
	played := slices.Clone(numbers)
	for s.open() {
		for i, sp := range s.spans {
			numbers[i] = (sp.least + sp.most) / 2
		}
		r, err := s.play(s.layout.first(s.counts(numbers)))
		if err != nil {
			return nil, false, err
		}
		s.narrow(numbers, r)
		if s.suffice(r) {
			best, played = r, slices.Clone(numbers)
		}
	}
	for i := range s.spans {
		numbers[i] = s.spans[i].most
	}
	if !slices.Equal(numbers, played) {
		best, err = s.play(s.layout.first(s.counts(numbers)))
	}
	return best, true, err
}

// open reports whether there is anything left to find.
func (s *search) open() bool {
	return slices.ContainsFunc(s.spans, func(sp span) bool { return sp.least < sp.most })
}

// narrow takes over what a run with so many engines has shown.
func (s *search) narrow(numbers []int, r *Result) {
	for i := range s.spans {
		sp, suffices := &s.spans[i], false
		if s.apart {
			suffices = s.well(r.Regions[i].Result)
		} else {
			suffices = s.suffice(r)
		}
		if suffices {
			sp.most = numbers[i]
		} else {
			sp.least = min(sp.most, numbers[i]+1)
		}
	}
}

// suffice reports whether all users are served well.
func (s *search) suffice(r *Result) bool {
	if len(r.Regions) == 0 {
		return s.well(r)
	}
	return !slices.ContainsFunc(r.Regions, func(of Region) bool { return !s.well(of.Result) })
}

// counts returns how many engines each pool has: of all that there are, the same part, at least one.
func (s *search) counts(numbers []int) []int {
	if s.apart {
		return numbers
	}
	all, sum, given := 0, 0, 0
	for i := range s.layout.Pools {
		all += len(s.layout.Pools[i].Engines)
	}
	counts := make([]int, len(s.layout.Pools))
	for i := range counts {
		sum += len(s.layout.Pools[i].Engines)
		counts[i] = max(1, sum*numbers[0]/all-given)
		given += counts[i]
	}
	return counts
}

// first returns the layout with the first engines of each pool.
func (l *Layout) first(counts []int) *Layout {
	out := *l
	out.Pools = slices.Clone(l.Pools)
	for i := range out.Pools {
		out.Pools[i].Engines = out.Pools[i].Engines[:counts[i]]
	}
	return &out
}
