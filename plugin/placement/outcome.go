package placement

import (
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/internal/statname"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/answer"
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/learned"
	"github.com/warmgate/warmgate/plugin/response"
	"github.com/warmgate/warmgate/plugin/stats"
)

// Whom a request is from matters for the health of endpoints: what one client sends must not count against an endpoint
// that serves the others.

// judging is what the end of a request means for what has served it.
type judging struct{ of *basis }

// completeOutcome completes the outcome of a request for the health of the endpoint. Reading the client costs a call
// into the gateway, so it is done only when it matters.
func (j *judging) completeOutcome(now time.Duration, verdict lb.Verdict, o *lb.Outcome) {
	of := j.of
	o.Addr, o.Verdict = of.Lease.Addr, verdict
	if verdict == lb.TimedOut {
		o.WaitedFor = now - of.SentAt()
	}
	o.Busy = of.Cluster.Answering[of.Lease.Addr] > 0
	if verdict > lb.Success || of.Cluster.Health.NeedsClient(now) {
		o.Client = j.clientID()
	}
	o.Model = of.Facts.ModelID()
	if of.Prompt.Chain != nil {
		o.Source = of.Prompt.Chain.Source()
	}
}

// clientID returns the same number for all requests of one client, 0 if nothing is known of it: by the tenant where the
// configuration names a header for it, else by the address, of IPv6 the first 64 bits.
func (j *judging) clientID() uint64 {
	of := j.of
	if h := of.Config.Prefix.TenantHeader; h != "" && of.Traits.Known {
		if tenant := of.Traits.Header(h); tenant != "" {
			return xxhash.Sum64String("tenant " + tenant)
		}
	}
	addr := of.Gateway.Client()
	if addr == "" {
		return 0
	}
	return xxhash.Sum64String("client " + config.Network(addr))
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

// answerVerdict judges by the content of an answer whose status is good, and reports whether that shows anything but
// success.
func (j *judging) answerVerdict() (verdict lb.Verdict, judged bool) {
	of := j.of
	r, cl, v := &of.Response, of.Cluster, of.Shared
	if !r.Reached || r.Status < 200 || r.Status >= 300 || r.Encoded {
		return 0, false
	}
	if r.Judge(); r.Answer != nil && r.Outcome != answer.Complete && of.Facts.StatesFact(r.Answer) {
		r.Outcome = answer.Refused
	}
	if r.Outcome == answer.Complete {
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

// measureCluster puts into the outcome how long a cluster has taken, and counts the request among those of the cluster.
func (j *judging) measureCluster(o *lb.Outcome, verdict lb.Verdict) {
	of := j.of
	l := &of.Lease
	if l.SteeredAt == 0 {
		return
	}
	if of.Computes() {
		o.Whole = max(1, of.Shared.ReadClock()-l.SteeredAt)
		if of.Response.BegunAt > 0 {
			o.FirstPart = max(1, of.Response.BegunAt-l.SteeredAt)
		}
	}
	result := "failed"
	switch verdict {
	case lb.Success:
		result = "served"
	case lb.Neutral, lb.Rejected:
		result = "other"
	}
	of.Shared.Stats.CountIf(statname.With(stats.Clusters, "cluster", l.Addr, "result", result), 1)
}
