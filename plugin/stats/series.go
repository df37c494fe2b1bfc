package stats

import (
	"time"

	"github.com/warmgate/warmgate/internal/statname"
	"github.com/warmgate/warmgate/lb/price"
	"github.com/warmgate/warmgate/plugin/measured"
)

// kinds of tokens, each token counted in one
const (
	inputTokens = iota
	cachedTokens
	outputTokens
	reasoningTokens
	tokenKinds
)

var (
	tokenNames = [tokenKinds]string{"input", "cached", "output", "reasoning"}
	usageNames = [...]string{"reported", "estimated"}
)

// series are the statistics of a combination.
type series struct {
	combination
	waits    bool // to be flushed
	requests [measured.Outcomes]counter
	tokens   [len(usageNames)][tokenKinds]counter

	durations          [measured.Outcomes]histogram
	ttft               histogram
	prefill            histogram
	decode             histogram
	perToken           histogram
	gap                histogram
	prompt, completion histogram
}

// measure counts what was measured of a request, but for the request itself.
func (s *series) measure(m Metrics, q *measured.Request) {
	s.durations[q.Outcome].record(m, millis(q.Duration), func() string {
		return s.of(statname.With(Duration, "outcome", q.Outcome.String()))
	})
	if q.Outcome == measured.Refused {
		return
	}
	s.count(&q.Tokens)
	if n := q.Tokens.Prompt(); n > 0 {
		s.prompt.record(m, n, func() string { return s.of(statname.With(RequestTokens, "kind", "prompt")) })
	}
	if n := q.Tokens.Completion(); n > 0 {
		s.completion.record(m, n, func() string { return s.of(statname.With(RequestTokens, "kind", "completion")) })
	}
	if !hasOutput(q) {
		return
	}
	s.ttft.record(m, millis(q.TTFT), func() string { return s.of(TTFT) })
	if q.Prefill > 0 {
		s.prefill.record(m, millis(q.Prefill), func() string { return s.of(Prefill) })
	}
	s.decode.record(m, millis(q.Decode), func() string { return s.of(Decode) })
	if q.PerToken > 0 {
		us := int64((q.PerToken + time.Microsecond/2) / time.Microsecond)
		s.perToken.record(m, us, func() string { return s.of(PerToken) })
	}
	if q.Parts > 1 {
		s.gap.record(m, millis(q.GapP99), func() string { return s.of(Gap) })
	}
}

// hasOutput reports whether a request is a stream that has had output.
func hasOutput(q *measured.Request) bool { return q.Streamed && q.TTFT > 0 }

// count counts tokens.
func (s *series) count(t *price.Tokens) {
	of := &s.tokens[0]
	if t.Estimated {
		of = &s.tokens[1]
	}
	of[inputTokens].n += max(t.Input, 0)
	of[cachedTokens].n += max(t.Cached, 0)
	of[outputTokens].n += max(t.Output, 0)
	of[reasoningTokens].n += max(t.Reasoning, 0)
}

// flush gives the gateway what was counted.
func (s *series) flush(m Metrics) {
	s.waits = false
	for o := range s.requests {
		s.requests[o].flush(m, func() string {
			return s.of(statname.With(Requests, "outcome", measured.Outcome(o).String()))
		})
	}
	for usage := range s.tokens {
		for kind := range s.tokens[usage] {
			s.tokens[usage][kind].flush(m, func() string {
				return s.of(statname.With(AllTokens, "kind", tokenNames[kind], "usage", usageNames[usage]))
			})
		}
	}
}

// of returns the name of a statistic of the combination, where stat may have labels.
func (s *series) of(stat string) string {
	return statname.With(stat, "cluster", s.cluster, "policy", s.policy, "model", s.model, "class", s.class)
}
