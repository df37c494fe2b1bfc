package placement

import (
	"strings"
	"time"

	"github.com/warmgate/warmgate/internal/statname"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/answer"
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/plugin/learned"
	"github.com/warmgate/warmgate/plugin/response"
	"github.com/warmgate/warmgate/plugin/stats"
)

// This file is what the end of a request means: its verdict, what is learned from it, and the end of its lease.

// End is called when a request is over.
func (s *Serving) End() {
	pl := s.Of
	if pl.Phase == PhaseLeased && pl.Response.Status == 0 {
		served := s.server()
		pl.Response.Reached = served != ""
		s.misrouted(served)
	}
	switch {
	case pl.Phase == PhaseLeased:
		s.counted = true
		s.judge(pl.Shared.Clock())
	case s.Measures:
		s.JudgeAnswer()
	}
	pl.Enter(PhaseDone)
}

// JudgeAnswer judges an answer by its content, where that says more than its status.
func (s *Serving) JudgeAnswer() {
	pl := s.Of
	switch status := pl.Response.Status; {
	case pl.Phase == PhaseLeased:
		pl.Judge.answers()
	case status >= 200 && status < 300:
		pl.Response.Judge()
	}
}

// judge releases the lease of a request that is over, and has its end show what it may.
func (s *Serving) judge(now time.Duration) {
	pl := s.Of
	outcome := lb.Outcome{}
	if !pl.Response.Reached {
		pl.noteNone(now)
	}
	s.learnUsage(now, &outcome)
	s.learnRates()
	verdict := pl.Judge.judged()
	pl.Judge.learnCall(now, verdict)
	pl.Judge.Result = resultOf(verdict)
	pl.Judge.measureCluster(&outcome)
	if verdict == lb.Success {
		pl.Wait.answered(now)
		if s.measure(now, &outcome) {
			t := s.tokens()
			measurePace(pl, now, t.Completion(), &outcome)
		}
		s.measurePush(now, false)
		s.expectMetrics(now)
	}
	pl.Wait.answerEnded(now, verdict)
	if pl.Lease.Budget.Target.Addr != "" {
		t := s.tokens()
		pl.charge.endCharges(&t)
	}
	if pl.Kept.LosesPrompt(verdict, pl.Lease.Reservation.Grant.Cached, pl.Response.Status) {
		pl.Lease.forgetPrompt(0) // before the release: who finds the request gone must not find its prompt
	}
	pl.Wait.noteServed()
	pl.Release()
	pl.Judge.completeOutcome(now, verdict, &outcome)
	pl.policy.Observe(now, outcome)
}

// learnUsage has the usage in the response correct what the request was charged, and show in the outcome.
func (s *Serving) learnUsage(now time.Duration, o *lb.Outcome) {
	pl := s.Of
	r := &pl.Response
	if !s.readsUsage() {
		return
	}
	used, known := pl.Prompt.LearnUsage(now, r.Answer, r.Complete, pl.Lease.Addr == pl.Lease.Chosen, o)
	if !known {
		return
	}
	pl.Lease.used(used)
	if pl.Prompt.Chain.HasBlocks() {
		pl.Cluster.Prompts.UsedBy(pl.user, pl.Config)
	}
}

// measure puts into the outcome what the request was counted for, and how long its answer took if its first part was
// not its end; and reports whether the chosen endpoint has served it. Times from the plan on are those of ticks, so
// only their averages mean something.
func (s *Serving) measure(now time.Duration, o *lb.Outcome) bool {
	pl := s.Of
	l := &pl.Lease
	if pl.Prompt.Chain == nil || l.Addr != l.Chosen || pl.Config.Shadow {
		return false
	}
	o.CountedTokens = l.Reservation.Plan.AddedTokens(l.Reservation.Grant.Cached)
	o.PlannedPrompt = l.Reservation.Request.PromptTokens
	if pl.Response.TTFT > 0 {
		o.TTFT, o.Duration = pl.Response.TTFT, now-pl.Prompt.Chain.Planned
	}
	return true
}

// pacedParts is from how many parts on a stream shows how long its tokens took, and not when it was sent on.
const pacedParts = 4

// measurePace puts into the outcome how long one of the output tokens took: as the parts of a stream came from the
// endpoint, however late the client reads them, or of an answer in one piece as a share of all.
func measurePace(pl *Placement, now time.Duration, output int64, o *lb.Outcome) {
	r := &pl.Response
	n := output / int64(max(1, pl.Prompt.Work.Info.N)) // of each answer: they are computed side by side
	o.OutputTokens, o.Streamed = n, r.Streamed
	switch {
	case n < 2 || r.Streamed && r.Outputs < pacedParts || !r.Streamed && r.Encoded:
		return
	case r.Streamed:
		o.PerToken = (r.LatestAt - r.FirstAt) / time.Duration(n-1)
	default:
		o.PerToken = (now - max(pl.placedAt(), pl.SentAt())) / time.Duration(n)
	}
	g, cs := &pl.Lease.Reservation.Grant, pl.Lease.Reservation.Plan.Candidates
	if o.Load = float64(g.Load.Requests); g.Index < len(cs) {
		o.Load /= cs[g.Index].Weight
	}
}

// expectMetrics notes the answer: a page of metrics that never shows it stands still.
func (s *Serving) expectMetrics(now time.Duration) {
	pl := s.Of
	l := &pl.Lease
	if !pl.Cluster.Metrics.Needed() || pl.Config.Shadow {
		return
	}
	if pl.Computes() && l.Addr == l.Chosen && pl.Response.Status < 300 {
		pl.Cluster.Engines.AddAnswer(now, l.Addr, pl.placedAt())
	}
}

// judged is verdict, less what says nothing of how the endpoint computes: of a call that computes nothing, only that
// the endpoint or the cluster cannot be reached; and no refusal of a model that it does not have, or not with such a
// context.
func (j *judging) judged() lb.Verdict {
	of := j.of
	verdict := j.Verdict()
	r := &of.Response
	if r.Reached && of.Facts.IsFact(verdict, of.Lease.Addr, r.Status) ||
		of.Idle() && !(verdict == lb.Failure && response.IsUnreached(of.Gateway.Details())) {
		return lb.Neutral
	}
	return verdict
}

// answers sets the outcome of an answer by its content, and reports whether that means anything.
func (j *judging) answers() bool {
	r, facts := &j.of.Response, &j.of.Facts
	if !r.Reached || !r.IsGood() || r.Encoded {
		return false
	}
	if r.Judge(); r.Answer != nil && r.Outcome != answer.Complete && facts.StatesFact(r.Answer) {
		r.Outcome = answer.Refused
	}
	return true
}

// answerVerdict judges by the content of an answer whose status is good, and reports whether that shows anything but
// success.
func (j *judging) answerVerdict() (verdict lb.Verdict, judged bool) {
	of := j.of
	r, cl, v := &of.Response, of.Cluster, of.Shared
	if !j.answers() || r.Outcome == answer.Complete {
		return 0, false
	}
	v.Stats.CountIf(statname.With(stats.Failed,
		"cluster", cl.Name, "endpoint", of.Lease.Addr, "reason", answer.OutcomeNames[r.Outcome]), 1)
	switch r.Outcome {
	case answer.Refused:
		return lb.Rejected, true
	case answer.Overloaded:
		return lb.Overload, true
	}
	cl.Suspect(v.Clock(), of.Lease.Addr)
	return lb.Failure, true
}

// learnCall has the answer show what calls of its kind are, or how long those that compute take.
func (j *judging) learnCall(now time.Duration, verdict lb.Verdict) {
	of := j.of
	r, calls := &of.Response, &of.Cluster.Calls
	took, known := r.Took()
	if verdict != lb.Success || r.Status >= 300 || !known {
		return
	}
	shows := learned.ShowsUnknown
	if !of.Pattern.IsListed() {
		shows = r.Shows()
	}
	calls.Learn(now, of.Pattern, shows, took, of.What == prompt.Computes)
}

// Verdict classifies the end of the request for the health of what served it. A cluster is to blame for what keeps
// every request from it: it has no healthy endpoint, a circuit breaker is open, or there is no such cluster. A client
// that leaves before there is an answer says nothing of it.
func (j *judging) Verdict() lb.Verdict {
	of := j.of
	if verdict, judged := j.answerVerdict(); judged {
		return verdict
	}
	verdict := of.Response.Verdict(of.Shared.Clock(), of.SentAt(), &of.Body, of.Gateway)
	if !of.Config.AmongClusters() || verdict != lb.Neutral && verdict != lb.Overload {
		return verdict
	}
	details := of.Gateway.Details()
	if response.IsUnreachable(details) {
		return lb.Failure
	}
	if verdict == lb.Overload && of.Response.Status == 0 && !strings.Contains(details, "upstream_reset") {
		return lb.Neutral
	}
	return verdict
}
