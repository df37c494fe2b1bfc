package core

import (
	"fmt"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/process"
)

// recorder is a policy that keeps what it planned and what it observed.
type recorder struct {
	lb.Policy
	plans    []lb.Plan
	outcomes []lb.Outcome
}

func (r *recorder) Plan(now time.Duration, req *lb.Request, v *lb.View) (lb.Plan, lb.Reason) {
	plan, reason := r.Policy.Plan(now, req, v)
	r.plans = append(r.plans, plan)
	return plan, reason
}

func (r *recorder) Observe(now time.Duration, o lb.Outcome) {
	r.outcomes = append(r.outcomes, o)
	r.Policy.Observe(now, o)
}

// record puts a recorder in front of the policy of the first worker.
func (d *fakeDriver) record() *recorder {
	d.t.Helper()
	d.talk(-1, 0) // so that there is one
	policies := d.workers[0].vm.Clusters[fakeCluster].Policies
	if len(policies) != 1 {
		d.t.Fatalf("%d policies, want one", len(policies))
	}
	r := &recorder{}
	for c, p := range policies {
		r.Policy, policies[c] = p, r
	}
	return r
}

// streamed is the body of promptBody for an answer as a stream.
func streamed(number int) string { return `{"stream":true,` + promptBody(number)[1:] }

// The policy learns from streamed answers how much load requests are, and how much of their time passes before the
// first part. The larger that part, the higher the credit for a cached prompt while others are in flight.
func TestPressureIsLearned(t *testing.T) {
	const rounds, at, first, rest = 20, 8, 3 * time.Second, time.Second
	d := startFake(t, 1, 1, fmt.Sprintf(prefixConfig, 0))
	r := d.record()
	for round := range rounds {
		var clients []*fakeStream
		for i := range at {
			clients = append(clients, d.client(0, streamtest.Request{Frames: []string{streamed(round*at + i)}}))
		}
		d.advance(first)
		for _, c := range clients {
			c.Head(200)
			c.Data("data: {\"choices\":[{\"text\":\"a\"}]}\n\n")
		}
		d.advance(rest)
		for _, c := range clients {
			c.Data("data: [DONE]\n\n")
			c.Finish()
		}
	}
	if len(r.plans) != rounds*at || len(r.outcomes) != rounds*at {
		t.Fatalf("%d plans and %d outcomes, want %d", len(r.plans), len(r.outcomes), rounds*at)
	}
	for i, o := range r.outcomes {
		if want := r.plans[i].AddedTokens(0); want <= 0 || o.CountedTokens != want {
			t.Errorf("request %d: %d tokens of work, want the %d of its plan", i, o.CountedTokens, want)
		}
		if (o.TTFT-first).Abs() > process.TickPeriod || (o.Duration-o.TTFT-rest).Abs() > process.TickPeriod {
			t.Errorf("request %d: the first part after %v, the end after "+
				"%v, want %v and %v", i, o.TTFT, o.Duration, first,
				first+rest)
		}
	}
	last := r.plans[len(r.plans)-1]
	if wait := last.Prefix.CreditGrowth; r.plans[0].Prefix.CreditGrowth != 0 || wait < 0.5 || last.PerRequest <= 0 {
		t.Errorf("requests in flight raise the credit by %.2f each, and cost %d tokens", wait, last.PerRequest)
	}
	d.drained()
}

// A stream that ends with its first part has no TTFT; one that begins within a tick has.
func TestFirstPartMayBeTheEnd(t *testing.T) {
	d := startFake(t, 1, 1, fmt.Sprintf(prefixConfig, 0))
	r := d.record()
	for _, parts := range []int{0, 1} {
		c := d.client(0, streamtest.Request{Frames: []string{streamed(1)}})
		c.Head(200)
		for range parts {
			c.Data("data: {\"choices\":[{\"text\":\"a\",\"finish_reason\":\"stop\"}]}\n\n")
		}
		d.advance(time.Second)
		c.Finish()
	}
	if len(r.outcomes) != 2 {
		t.Fatalf("%d outcomes, want 2", len(r.outcomes))
	}
	if o := r.outcomes[0]; o.CountedTokens <= 0 || o.TTFT != 0 || o.Duration != 0 {
		t.Errorf("at once: %+v, want work and no times", o)
	}
	if o := r.outcomes[1]; o.TTFT <= 0 || o.TTFT > process.TickPeriod || o.Duration < time.Second-process.TickPeriod {
		t.Errorf("in parts: the first after %v and the end after %v", o.TTFT, o.Duration)
	}
	d.drained()
}
