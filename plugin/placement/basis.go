package placement

import (
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/clusters"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/request"
	"github.com/warmgate/warmgate/plugin/response"
)

// basis is what the parts of a placement have in common: the request as it sees it, by what it is placed, where it is
// counted, and what has come of its answer.
type basis struct {
	request.Subject
	Shared   *Shared
	user     clusters.PromptUser // by whom it is configured
	Within   *string             // inside another choice: its cluster, which a retry of the gateway may change
	Phase    Phase
	policy   lb.Policy
	Lease    lease            // where it is counted
	Response response.Reading // what has come of the response, and how it is read
}

// Enter changes the phase.
func (b *basis) Enter(next Phase) {
	if !transitions[b.Phase][next] {
		b.Shared.GW.Log(host.Error, "a request in phase "+b.Phase.String()+" enters "+next.String())
	}
	b.Phase = next
}

// isFollowed reports whether a request is followed for what is gained: it computes something at an endpoint that is
// chosen here.
func isFollowed(b *basis) bool {
	c := b.Config
	return c.Telemetry.Enabled && !c.Shadow && !c.AmongClusters() && !b.Trial && !b.Idle()
}

// SentAt returns since when an endpoint could have had all of the request.
func (b *basis) SentAt() time.Duration { return max(b.Body.EndedAt, b.Lease.GrantedAt) }

// placedAt returns when the request was placed: those that had to wait, after that.
func (b *basis) placedAt() time.Duration { return max(b.Lease.plannedAt, b.Lease.GrantedAt) }
