package lb

import (
	"cmp"
	"slices"
	"time"

	"github.com/warmgate/warmgate/lb/prompt"
)

// Policy turns one request and one view of the endpoints into a plan. It does no I/O and reads no clock: the same
// sequence of plans and observations gives the same plan. A policy serves one cluster.
type Policy interface {
	// Plan returns the plan and ReasonChosen, or the reason for falling back to native balancing.
	Plan(now time.Duration, r *Request, v *View) (Plan, Reason)
	// Observe reports how a request ended on the endpoint that served it.
	Observe(now time.Duration, o Outcome)
}

// Request is what a policy may know of a request.
type Request struct {
	PromptTokens int64          // estimated tokens of the prompt
	OutputTokens int64          // estimated tokens of the answer
	Model        string         // name of the model, for endpoint_metrics
	Blocks       []prompt.Block // prefix blocks of the prompt, for prefix_cache
	PromptBytes  int            // length of the prompt in bytes, as in Block.End
	BypassCache  bool           // the engine computes the whole prompt, whatever is in its KV cache
	Session      uint64         // digest of the key of its session, 0 for none
	Idle         bool           // it computes nothing, or nothing here: see [prompt.Call]
	Trial        bool           // it is only asked where it would go: the policy learns nothing of it
	ModelID      uint64         // digest of the model's name and the path, 0 if it is not known
	ModelName    uint64         // that of the name alone: see [models.Name]
	Length       int64          // of the prompt and the wanted answer, in bytes, 0 if unknown; for [models.Facts]
	Target       Target         // how soon it wants its answer; for prefix_cache
	AnyTime      bool           // whatever targets are configured or wanted, none counts: to ask what they change
	Subset       []uint64       // of [EndpointHash], sorted: the endpoints that it may be sent to; nil: any
	Random       uint64         // random bits, so that a plan depends on its inputs only: see package health
}

// MayUse reports whether the request may be sent to an endpoint.
func (r *Request) MayUse(addr string) bool {
	_, isIn := slices.BinarySearch(r.Subset, EndpointHash(ServerOf(addr)))
	return isIn || r.Subset == nil
}

// Target is how soon an answer is to come. The zero value: whenever it does.
type Target struct {
	TTFT     time.Duration // to the first token, from the plan on; 0 for any
	PerToken time.Duration // for each token behind it; 0 for any
}

// Or returns the target with those times of another one that it has none of.
func (t Target) Or(other Target) Target {
	return Target{TTFT: cmp.Or(t.TTFT, other.TTFT), PerToken: cmp.Or(t.PerToken, other.PerToken)}
}
