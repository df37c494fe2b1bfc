package calibrate

import (
	"slices"

	"github.com/warmgate/warmgate/internal/simulate"
	"github.com/warmgate/warmgate/internal/simulate/engine"
)

// cacheSize returns how many tokens the caches of the servers of a log hold, 0 if it does not show that: prompts have
// no fingerprints, or nothing was evicted.
//
// A part of a prompt is found again if it fits into the cache with all that was used since its last use: that is its
// distance (Mattson et al.: "Evaluation techniques for storage hierarchies", 1970). So the distances of all parts say
// how much of the prompts a cache of any size finds, and the size is the one that finds as much as was reported.
func cacheSize(log *simulate.AccessLog) int {
	stacks := map[string]*stack{}
	var uses []use
	cached := 0
	for i := range log.Requests {
		q := &log.Requests[i]
		if !q.Line.Served() || len(q.Line.Marks) == 0 {
			continue
		}
		cached += q.Line.Cached
		s := stacks[q.Line.Host]
		if s == nil {
			s = &stack{last: map[uint64]used{}}
			stacks[q.Line.Host] = s
		}
		uses = append(uses, s.use(q.Prompt)...)
		if q.Name != 0 {
			s.touch(engine.Part{Name: q.Name, Tokens: q.Answer})
		}
	}
	slices.SortFunc(uses, func(a, b use) int { return a.distance - b.distance })
	found, all := 0, 0
	for _, u := range uses {
		all += u.tokens
	}
	const nearly = 0.97 // blocks and last tokens are never found
	if float64(cached) > nearly*float64(all) {
		return 0
	}
	for _, u := range uses {
		if found += u.tokens; found >= cached {
			return u.distance
		}
	}
	return 0
}

// use is that of a part which was used before.
type use struct{ tokens, distance int }

// stack is what a server has used, in order. Each part counts at its last use.
type stack struct {
	last map[uint64]used // by the name of the part
	sums []int           // Fenwick tree over the uses
	all  int             // tokens of all parts
}

// used is the last use of a part.
type used struct{ at, tokens int }

// use uses a prompt. It returns the parts that were used before, up to the first one that was not.
func (s *stack) use(prompt []engine.Part) (uses []use) {
	farthest, known := 0, true
	for _, p := range prompt {
		d := s.touch(p)
		if known = known && d > 0; known {
			farthest = max(farthest, d)
			uses = append(uses, use{p.Tokens, farthest})
		}
	}
	return uses
}

// touch uses a part. It returns its distance, 0 if it was not used before.
func (s *stack) touch(p engine.Part) (distance int) {
	if before, ok := s.last[p.Name]; ok {
		distance = s.all - s.upTo(before.at-1)
		for i := before.at; i <= len(s.sums); i += i & -i {
			s.sums[i-1] -= before.tokens
		}
		s.all -= before.tokens
	}
	at := len(s.sums) + 1
	s.sums = append(s.sums, s.all-s.upTo(at-(at&-at))+p.Tokens)
	s.last[p.Name] = used{at, p.Tokens}
	s.all += p.Tokens
	return distance
}

// upTo returns how many tokens count at the first uses, so many of them.
func (s *stack) upTo(uses int) (tokens int) {
	for i := uses; i > 0; i -= i & -i {
		tokens += s.sums[i-1]
	}
	return tokens
}
