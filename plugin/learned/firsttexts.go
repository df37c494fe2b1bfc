package learned

import (
	"time"

	"github.com/warmgate/warmgate/lb/prompt"
)

// Some clients put a line of their own in front of a system prompt, with a new value in every request, and engines that
// know it leave it out before they print the prompt. Those that are known are in lb/prompt/printed.go. Others are
// recognised by what they do: a short first text that changes from request to request while what is behind it, a long
// text or several of the system prompt, stays the same. As long as answers do not show the opposite, such a model's
// prompts are matched without it. Where an engine prints it, next to nothing of such prompts is cached, and what
// answers report of that turns the rule off again until it is forgotten.

const (
	// maxFirstTexts is for how many models of clusters a VM looks at first texts, recentTexts how many of the latest
	// different ones it compares: clients with instructions in common may each have a line that stays.
	maxFirstTexts = 64
	recentTexts   = 64
	// A first text changes if it did so at least minChanges times, and in all but one of changesShare cases. Cases
	// count half as soon as there are maxCases.
	minChanges   = 4
	changesShare = 5
	maxCases     = 64
	// An answer shows that the first text is left out if at least half of what was expected was cached, and that it is
	// printed if less than a tenth was. It is asked of prompts of which at least minExpected was expected.
	minExpected = 0.25
)

// ModelID is a model of a cluster.
type ModelID struct {
	Cluster string
	Model   uint64
}

// FirstTexts is what is known of the first texts of a model's prompts.
type FirstTexts struct {
	recent  [recentTexts]prompt.First
	next    int // place in recent
	changed int // cases in which the first text in front of the same one was new
	same    int // cases in which it was not
	left    evidence
	printed evidence
	usedAt  time.Duration
}

// Firsts is what a VM knows of first texts.
type Firsts map[ModelID]*FirstTexts

// Of returns what is known of a model. If there is no room, the one is dropped that was not used for longest. It is not
// inlined, for the size of the artifacts.
//
//go:noinline
func (f Firsts) Of(now time.Duration, id ModelID) *FirstTexts {
	t := f[id]
	if t == nil {
		if len(f) >= maxFirstTexts {
			f.drop()
		}
		t = &FirstTexts{}
		f[id] = t
	}
	t.usedAt = now
	return t
}

// Try returns a copy of what is known of a model, for a request that teaches nothing.
func (f Firsts) Try(id ModelID) *FirstTexts {
	if t := f[id]; t != nil {
		tried := *t
		return &tried
	}
	return &FirstTexts{}
}

func (f Firsts) drop() {
	var oldest ModelID
	var at time.Duration
	for id, t := range f {
		if at == 0 || t.usedAt < at {
			oldest, at = id, t.usedAt
		}
	}
	delete(f, oldest)
}

// Observe compares a prompt with the latest ones. It reports whether its first text has changed.
func (t *FirstTexts) Observe(p prompt.First) (changed bool) {
	if p.Text == 0 || p.Behind == 0 {
		return false
	}
	if t.same+t.changed >= maxCases {
		t.same, t.changed = t.same/2, t.changed/2
	}
	for i := range t.recent {
		if t.recent[i].Behind != p.Behind {
			continue
		}
		if t.recent[i].Text == p.Text {
			t.same++
			return false
		}
		changed = true
	}
	if changed {
		t.changed++
	}
	t.recent[t.next] = p
	t.next = (t.next + 1) % recentTexts
	return changed
}

// Skipped reports whether the first text is to be left out of prompts.
func (t *FirstTexts) Skipped(now time.Duration) bool {
	return t.changed >= minChanges && t.changed >= (changesShare-1)*t.same && t.printed.left(now) <= t.left.left(now)
}

// Answered learns from an answer to a prompt without its first text, which had changed: the shares that were expected
// to be cached, and that were. One that had not changed may be cached although it is printed.
func (t *FirstTexts) Answered(now time.Duration, expected, cached float64) {
	switch {
	case expected < minExpected:
	case cached >= expected/2:
		t.left.add(now)
	case cached < expected/10:
		t.printed.add(now)
	}
}
