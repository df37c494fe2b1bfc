package core

import (
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/internal/statname"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/answer"
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/learned"
	"github.com/warmgate/warmgate/plugin/stats"
)

// Whom a request is from matters for the health of endpoints: what one client sends must not count against an endpoint
// that serves the others.

// judging is what the end of a request means for what has served it.
type judging struct{ pl *choice }

// completeOutcome completes the outcome of a request for the health of the endpoint. Reading the client costs a call
// into the gateway, so it is done only when it matters.
func (j *judging) completeOutcome(now time.Duration, verdict lb.Verdict, o *lb.Outcome) {
	pl := j.pl
	o.Addr, o.Verdict = pl.lease.addr, verdict
	if verdict == lb.TimedOut {
		o.WaitedFor = now - pl.sentAt()
	}
	o.Busy = pl.Cluster.Answering[pl.lease.addr] > 0
	if verdict > lb.Success || pl.Cluster.Health.NeedsClient(now) {
		o.Client = j.clientID()
	}
	o.Model = pl.Facts.ModelID()
	if pl.Prompt.Chain != nil {
		o.Source = pl.Prompt.Chain.Source()
	}
}

// clientID returns the same number for all requests of one client, 0 if nothing is known of it: by the tenant where the
// configuration names a header for it, else by the address, of IPv6 the first 64 bits.
func (j *judging) clientID() uint64 {
	pl := j.pl
	if h := pl.Config.Prefix.TenantHeader; h != "" && pl.Traits.Known {
		if tenant := pl.Traits.Header(h); tenant != "" {
			return xxhash.Sum64String("tenant " + tenant)
		}
	}
	addr := pl.Gateway.Client()
	if addr == "" {
		return 0
	}
	return xxhash.Sum64String("client " + config.Network(addr))
}

// judged is verdict, less what says nothing of how the endpoint computes: of a call that computes nothing, only that
// the endpoint or the cluster cannot be reached; and no refusal of a model that it does not have, or not with such a
// context.
func (j *judging) judged() lb.Verdict {
	pl := j.pl
	verdict := j.verdict()
	r := &pl.response
	if r.reached && pl.Facts.IsFact(verdict, pl.lease.addr, r.status) ||
		pl.Idle() && !(verdict == lb.Failure && isUnreached(pl.Gateway.Details())) {
		return lb.Neutral
	}
	return verdict
}

// answerVerdict judges by the content of an answer whose status is good, and reports whether that shows anything but
// success.
func (j *judging) answerVerdict() (verdict lb.Verdict, judged bool) {
	pl := j.pl
	r, cl, v := &pl.response, pl.Cluster, pl.plugin.vm
	if !r.reached || r.status < 200 || r.status >= 300 || r.encoded {
		return 0, false
	}
	if r.judge(); r.answer != nil && r.outcome != answer.Complete && pl.Facts.StatesFact(r.answer) {
		r.outcome = answer.Refused
	}
	if r.outcome == answer.Complete {
		return 0, false
	}
	v.Stats.CountIf(statname.With(stats.Failed,
		"cluster", cl.Name, "endpoint", pl.lease.addr, "reason", answer.OutcomeNames[r.outcome]), 1)
	switch r.outcome {
	case answer.Refused:
		return lb.Rejected, true
	case answer.Overloaded:
		return lb.Overload, true
	}
	cl.Suspect(v.Clock(), pl.lease.addr)
	return lb.Failure, true
}

// learnCall has the answer show what calls of its kind are, or how long those that compute take.
func (j *judging) learnCall(now time.Duration, verdict lb.Verdict) {
	pl := j.pl
	r, calls := &pl.response, &pl.Cluster.Calls
	if verdict != lb.Success || r.status >= 300 || r.asked == 0 || r.answered == 0 {
		return
	}
	shows := learned.ShowsUnknown
	if !pl.Pattern.IsListed() {
		shows = r.shows()
	}
	calls.Learn(now, pl.Pattern, shows, max(0, r.answered-r.asked), pl.What == prompt.Computes)
}
