package learned

import (
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/plugin/endpoints"
	"github.com/warmgate/warmgate/plugin/process"
)

// A call that no table lists is taken for what its method and its body make likely, until its answers have shown the
// opposite often enough: that nothing of a model is in them, and that they come at once compared with those of calls
// that compute; or, without a body, that a model works on it. Each VM learns that for itself.

const (
	maxCallPaths  = 64               // patterns of calls of a cluster of which it is known what answers have shown
	patternBytes  = 256              // of a long path that count
	worthOfAnswer = 20 * time.Second // for how much longer an answer has a pattern known, up to ClusterAge
	enoughAnswers = 32               // to show the opposite at first; twice as many each time that this was wrong
	// Answers come at once if that takes 1/atOnce of the mean time of calls that compute, and not any more if it takes
	// more than twice that. The mean counts from enoughAnswers on, and if it is half a tick or more.
	atOnce = 8
)

// CallPattern is what calls have in common of which one shows what the others are: the method, and the path but for its
// query and for ids, which are parts with a digit. The zero value is that of calls that a table lists.
type CallPattern struct {
	id       uint64
	bodiless bool
}

// PatternOf returns the pattern of a call. bodiless: it has no body.
func PatternOf(method, path string, bodiless bool) CallPattern {
	path, _, _ = strings.Cut(path[:min(len(path), patternBytes)], "?")
	parts := strings.Split(strings.TrimRight(path, "/"), "/")
	for i, part := range parts {
		if strings.ContainsAny(part, "0123456789") {
			parts[i] = "*"
		}
	}
	return CallPattern{xxhash.Sum64String(method+strings.Join(parts, "/")) | 1, bodiless}
}

// IsListed reports whether a table lists the call.
func (p CallPattern) IsListed() bool { return p.id == 0 }

// Shown is what an answer shows of the work behind it.
type Shown uint8

const (
	ShowsUnknown Shown = iota // it is not read, or not all that matters
	ShowsNothing              // it has none of what follows
	ShowsOutput               // output in one piece, or a stream of what may be some
	ShowsWork                 // it reports tokens, or streams output
)

// meanTime is the mean of so many times, or about so many of the latest.
type meanTime struct {
	count int
	mean  time.Duration
}

func (m *meanTime) add(d time.Duration, most int) {
	m.count = min(m.count+1, most)
	m.mean += (d - m.mean) / time.Duration(m.count)
}

// callPath is what answers to the calls of one pattern have shown.
type callPath struct {
	pattern  CallPattern
	opposite meanTime      // of answers that show the opposite of what is likely
	needed   int           // how many of these it takes
	judged   bool          // there were as many: the opposite holds
	worth    time.Duration // the one with the least makes room for others
}

// Calls is what a VM knows of the calls of a cluster that no table lists.
type Calls struct {
	paths     []callPath
	computing meanTime // of calls that compute, until their answers begin
}

// find returns what is known of a pattern, nil for nothing, and otherwise what would make room for it.
func (b *Calls) find(pattern CallPattern) (p, least *callPath) {
	for i := range b.paths {
		p = &b.paths[i]
		if p.pattern == pattern {
			return p, nil
		}
		if least == nil || p.worth < least.worth {
			least = p
		}
	}
	return nil, least
}

// Judge returns what a call is by its answers so far; likely: what it is by its method and body.
func (b *Calls) Judge(pattern CallPattern, likely prompt.Call) prompt.Call {
	switch p, _ := b.find(pattern); {
	case p == nil || !p.judged:
		return likely
	case pattern.bodiless:
		return prompt.Computes
	}
	return prompt.Quiet
}

// Learn takes over what an answer has shown, and after which time it began. computes: it is known that the call does.
func (b *Calls) Learn(now time.Duration, pattern CallPattern, shows Shown, took time.Duration, computes bool) {
	if !pattern.IsListed() {
		b.learnPattern(now, pattern, shows, took)
		computes = shows == ShowsWork && !pattern.bodiless
	}
	if computes {
		b.computing.add(took, 2*enoughAnswers)
	}
}

func (b *Calls) learnPattern(now time.Duration, pattern CallPattern, shows Shown, took time.Duration) {
	opposite := shows == ShowsNothing && !pattern.bodiless || shows == ShowsWork && pattern.bodiless
	if b.paths == nil {
		b.paths = make([]callPath, maxCallPaths)
	}
	p, least := b.find(pattern)
	if p == nil {
		if !opposite {
			return
		}
		p = least
		*p = callPath{pattern: pattern, needed: enoughAnswers}
	}
	switch o := &p.opposite; {
	case opposite || p.judged && shows == ShowsUnknown:
		o.add(took, 2*p.needed)
	case pattern.bodiless: // a model may still work on others
		o.count = max(0, o.count-1)
	case shows != ShowsUnknown:
		*o = meanTime{}
	}
	typical := b.computing.mean
	fits, contradicts := p.opposite.mean <= typical/atOnce, p.opposite.mean > 2*typical/atOnce
	if pattern.bodiless {
		fits, contradicts = contradicts, fits
	}
	switch {
	case p.judged && (contradicts || 2*p.opposite.count < p.needed):
		p.judged, p.needed, p.opposite = false, 2*p.needed, meanTime{}
	case fits && p.opposite.count >= p.needed && b.computing.count >= enoughAnswers && typical >= process.TickPeriod/2:
		p.judged = true
	}
	p.worth = now + min(endpoints.ClusterAge, time.Duration(p.needed-enoughAnswers+p.opposite.count)*worthOfAnswer)
}
