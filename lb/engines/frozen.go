package engines

import (
	"time"

	"github.com/warmgate/warmgate/metrics"
)

// A page of metrics can stand still: its exporter hangs, or a proxy in front serves the last one it has seen. How full
// an engine was then says nothing of now, and the page says so itself: engines count tokens, so one that is read after
// an answer differs from one that was read before its request was placed. If it does not a while after that answer, it
// is frozen: [Sample].Frozen.

// PageMark is what every answer changes of a page: how many tokens it counts, whatever else moves, such as the time of
// the exporter's own process; or its digest if it counts none. The zero PageMark is that of no page.
type PageMark struct {
	Prompts, Output float64
	Page            uint64
}

// Mark returns the mark of the page that the sample is from.
func (s *Sample) Mark() PageMark {
	if s.Page == 0 || !s.CountsTokens() {
		return PageMark{Page: s.Page}
	}
	return PageMark{Prompts: s.orZero(metrics.PromptTokens), Output: s.orZero(metrics.OutputTokens)}
}

// seen follows what is read, as far as this VM has, to know which answers a page must show.
type seen struct {
	mark     PageMark
	since    time.Duration // time of the first scrape that brought it here
	answered time.Duration // end of the first answer to a request that was placed later, 0 for none
}

// follow notes which page the sample is from. Another one may show all answers until now.
func (w *seen) follow(s *Sample) {
	if m := s.Mark(); m != w.mark || m == (PageMark{}) {
		*w = seen{mark: m, since: s.ScrapedAt}
	}
}

// CountsTokens reports whether the sample is of a page that every answer must change, because it counts tokens. One
// that has other numbers alone, such as how many requests run, may be the same by chance. An engine for embeddings may
// count none.
func (s *Sample) CountsTokens() bool {
	return s.orZero(metrics.PromptTokens) > 0 || s.orZero(metrics.OutputTokens) > 0
}
