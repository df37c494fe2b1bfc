package core

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
	shared   *shared
	user     clusters.PromptUser // by whom it is configured
	within   *string             // inside another choice: the cluster that this is in
	phase    phase
	policy   lb.Policy
	lease    lease            // where it is counted
	response response.Reading // what has come of the response, and how it is read
}

// enter changes the phase.
func (b *basis) enter(next phase) {
	if !transitions[b.phase][next] {
		b.shared.GW.Log(host.Error, "a request in phase "+b.phase.String()+" enters "+next.String())
	}
	b.phase = next
}

// sentAt returns since when an endpoint could have had all of the request.
func (b *basis) sentAt() time.Duration { return max(b.Body.EndedAt, b.lease.grantedAt) }

// placedAt returns when the request was placed: those that had to wait, after that.
func (b *basis) placedAt() time.Duration { return max(b.lease.plannedAt, b.lease.grantedAt) }
