package core

import (
	"strconv"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/answer"
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/lb/push"
	"github.com/warmgate/warmgate/plugin/response"
)

// readAs has the body of the response read as what the request and its headers say; end: it has none.
func (s *serving) readAs(headers [][2]string, end bool) {
	pl := s.pl
	r, l := &pl.response, &pl.lease
	r.Use = response.Use{
		Addr: l.addr, PlacedAt: pl.placedAt(), Requested: pl.Prompt.Work.Streamed, Exact: pl.Config.AmongClusters(),
	}
	if r.Status < 200 || r.Status >= 300 || pl.Idle() { // of that, no answer says anything
		return
	}
	r.Usage = s.readsUsage()
	if r.Status == 200 && pl.Computes() && pl.Traits.Value(":method") == "POST" { // what is stored may be a page
		r.API = answer.APIOf(pl.Traits.Path)
	}
	r.Begin(headers, end)
}

// readReport takes over the load report of the response, which is that of who serves the request.
func (s *serving) readReport() {
	pl := s.pl
	report, addr := pl.Metrics.TakeReport(pl.Gateway), pl.lease.addr
	if report == "" {
		return
	}
	if addr == "" { // the gateway has chosen
		addr = pl.Gateway.ServedBy()
	}
	if addr != "" {
		pl.shared.scraping.AddReport(pl.lease.now(), pl.Config, pl.Cluster.Name, addr, report)
	}
}

// leasedHeaders reads the headers of the response to a request that is counted, and takes over its status.
func (s *serving) leasedHeaders() [][2]string {
	pl := s.pl
	if pl.phase != phaseLeased {
		return nil
	}
	headers := pl.Gateway.ResponseHeaders()
	for _, h := range headers {
		if h[0] == ":status" {
			pl.response.Status, _ = strconv.Atoi(h[1])
		}
	}
	return headers
}

// isInformational reports whether a status is one that is followed by the response itself, such as early hints.
func isInformational(status int) bool { return status >= 100 && status < 200 && status != 101 }

// answerGoesOn is called for every part of the response's body: size bytes.
func (s *serving) answerGoesOn(size int, end bool) {
	pl := s.pl
	r := &pl.response
	r.Complete = r.Complete || end
	s.readBegin(size)
	if size > 0 && r.Retry != nil {
		pl.charge.readRetry(size)
	}
	if at, begins := r.GoOn(size, end, pl.phase == phaseLeased); begins && r.Streamed {
		s.firstToken(at)
	}
}

// readsBegin reports whether more of the beginning of the answer is to be read.
func (s *serving) readsBegin() bool {
	pl := s.pl
	return pl.State.Makes || pl.phase == phaseLeased && pl.Facts.ReadsRefusal(pl.response.Status)
}

// readBegin takes the part of an answer that is passing, size bytes, and records what the endpoint has made.
func (s *serving) readBegin(size int) {
	pl := s.pl
	l, status := &pl.lease, pl.response.Status
	if pl.phase != phaseLeased {
		return
	}
	pl.Facts.ReadRefusal(size, status)
	if status < 200 || status >= 300 {
		return
	}
	for _, made := range pl.State.Learn(size) {
		plan := lb.Plan{Scope: l.reservation.plan.Scope, Prefix: made}
		l.store.RecordPrompt(l.now(), l.reservation.id, &plan, l.addr)
	}
}

// readsUsage reports whether the usage in the response matters.
func (s *serving) readsUsage() bool {
	pl := s.pl
	r := &pl.response
	return pl.phase == phaseLeased && r.Status >= 200 && r.Status < 300 && !r.Encoded &&
		(pl.Prompt.Work.Sampled || pl.Prompt.Chain.HasBlocks() || pl.lease.budget.target.addr != "" ||
			pl.wait.sharesTokens() || pl.What == prompt.Quiet)
}

// learnUsage has the usage in the response correct what the request was charged, and show in the outcome.
func (s *serving) learnUsage(now time.Duration, o *lb.Outcome) {
	pl := s.pl
	r := &pl.response
	if !s.readsUsage() {
		return
	}
	used, known := pl.Prompt.LearnUsage(now, r.Answer, r.Complete, pl.lease.addr == pl.lease.chosen, o)
	if !known {
		return
	}
	pl.lease.used(used)
	if pl.Prompt.Chain.HasBlocks() {
		pl.Cluster.Prompts.UsedBy(pl.user, pl.Config)
	}
}

// firstToken is called when the first token of a stream has come: what remains in flight is the output. An answer in
// one piece has no such moment.
func (s *serving) firstToken(at time.Duration) {
	pl := s.pl
	if a := pl.response.Answer; a == nil || !a.Vain() {
		s.measurePush(at, true)
	}
	if pl.lease.tokens > pl.Prompt.Work.Output {
		pl.lease.amend("", pl.Prompt.Work.Output)
	}
	if pl.Prompt.Chain != nil {
		pl.response.TTFT = max(1, at-pl.Prompt.Chain.Planned) // 0 within one tick, but known
	}
}

// measure puts into the outcome what the request was counted for, and how long its answer took if its first part was
// not its end. Times are those of ticks, so only their averages mean something.
func (s *serving) measure(now time.Duration, o *lb.Outcome) {
	pl := s.pl
	l := &pl.lease
	if pl.Prompt.Chain == nil || l.addr != l.chosen || pl.Config.Shadow {
		return
	}
	o.CountedTokens = l.reservation.plan.AddedTokens(l.reservation.grant.Cached)
	if pl.response.TTFT > 0 {
		o.TTFT, o.Duration = pl.response.TTFT, now-pl.Prompt.Chain.Planned
	}
}

// measurePush has an answer show how many requests the endpoint runs without a queue: when it has begun, if it is
// streamed, and when it has ended.
func (s *serving) measurePush(at time.Duration, begun bool) {
	pl := s.pl
	l := &pl.lease
	if pl.Config.Push != push.Pending || !pl.Computes() || l.addr != l.chosen || pl.Config.Shadow ||
		pl.response.Status >= 300 {
		return
	}
	pl.Cluster.Limits.Observe(at, push.Answer{
		Addr: l.addr, PlacedAt: pl.placedAt(), Inflight: l.load,
		Begun: begun, Streamed: pl.response.Streamed && !begun, Bytes: pl.response.Bytes,
	})
}

// expectMetrics notes the answer: a page of metrics that never shows it stands still.
func (s *serving) expectMetrics(now time.Duration) {
	pl := s.pl
	l := &pl.lease
	if !pl.Cluster.Metrics.Needed() || pl.Config.Shadow {
		return
	}
	if pl.Computes() && l.addr == l.chosen && pl.response.Status < 300 {
		pl.Cluster.Engines.AddAnswer(now, l.addr, pl.placedAt())
	}
}

// end is called when a request is over.
func (s *serving) end() {
	pl := s.pl
	if pl.phase == phaseLeased && pl.response.Status == 0 {
		served := s.pl.server()
		pl.response.Reached = served != ""
		s.misrouted(served)
	}
	if pl.phase == phaseLeased {
		s.judge(pl.shared.Clock())
	}
}

// judge releases the lease of a request that is over, and has its end show what it may.
func (s *serving) judge(now time.Duration) {
	pl := s.pl
	outcome := lb.Outcome{}
	s.learnUsage(now, &outcome)
	verdict := pl.judge.judged()
	pl.judge.learnCall(now, verdict)
	pl.judge.measureCluster(&outcome, verdict)
	if verdict == lb.Success {
		pl.wait.answered(now)
		s.measure(now, &outcome)
		s.measurePush(now, false)
		s.expectMetrics(now)
	}
	pl.wait.answerEnded(now, verdict)
	pl.charge.endCharges()
	if pl.State.LosesPrompt(verdict, pl.lease.reservation.grant.Cached, pl.response.Status) {
		pl.lease.forgetPrompt(0) // before the release: who finds the request gone must not find its prompt
	}
	pl.wait.noteServed()
	pl.release()
	pl.judge.completeOutcome(now, verdict, &outcome)
	pl.policy.Observe(now, outcome)
}
