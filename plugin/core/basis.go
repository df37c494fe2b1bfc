package core

import (
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/learned"
)

// basis is what the parts of a placement have in common: the request, by what it is placed, what was read of it, where
// it is counted, and what has come of its answer.
type basis struct {
	*request
	plugin *Plugin
	phase  phase

	cfg     *config.Config
	scope   string // name of the cluster
	cluster *cluster
	policy  lb.Policy

	pattern  learned.CallPattern // of a call that no table lists
	session  session             // that it belongs to
	prompt   promptUse           // its prompt, and how much work that is
	held     heldUse             // what it has to do with what engines keep
	facts    factUse             // what it has to do with facts about models
	metrics  metricsUse          // what it has to do with the metrics of engines
	lease    lease               // where it is counted
	response reading             // what has come of the response, and how it is read
}

// enter changes the phase.
func (b *basis) enter(next phase) {
	if !transitions[b.phase][next] {
		b.plugin.vm.GW.Log(host.Error, "a request in phase "+b.phase.String()+" enters "+next.String())
	}
	b.phase = next
}

// sentAt returns since when an endpoint could have had all of the request.
func (b *basis) sentAt() time.Duration { return max(b.body.endedAt, b.lease.grantedAt) }

// placedAt returns when the request was placed: those that had to wait, after that.
func (b *basis) placedAt() time.Duration { return max(b.lease.plannedAt, b.lease.grantedAt) }
