package core

import (
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
)

// A request has a row of placements. The first chooses an endpoint of its route's cluster, or one of several clusters;
// then one inside of it may choose an endpoint in the chosen cluster (lb_config.endpoint), or a server of another
// region whose gateways are gone. Each has its plan, its lease and its place in a queue, and gives them back by itself,
// whatever ends the request: it is called back for the same events, behind the one that it is inside of.

// placement is one choice for a request: plan, reservation, lease, response, outcome.
type placement struct {
	*Stream
	phase phase

	cfg     *config.Config
	scope   string // name of the cluster
	cluster *cluster
	policy  lb.Policy
	reason  lb.Reason
	settled bool // the request is counted under its reason

	pattern  callPattern  // of a call that no table lists
	session  session      // that it belongs to
	region   forwarding   // to or from another region
	work     work         // how much work it is, with unit: tokens
	chain    *promptChain // for prefix_cache, nil where the prompt does not matter
	held     heldUse      // what it has to do with what engines keep
	facts    factUse      // what it has to do with facts about models
	metrics  metricsUse   // what it has to do with the metrics of engines
	wait     waiting      // in the queue of the cluster
	lease    lease        // where it is counted
	response reading      // what has come of the response, and how it is read

	inside *placement // the next of the row, nil for none
	outer  *placement // the one that this is inside of, nil for none
	seen   seen       // what has come of the request, for the one inside a cluster
}

// newPlacement returns a placement of the request by a configuration, nil if that is not known yet, inside of another
// one unless that is nil.
func newPlacement(s *Stream, outer *placement, c *config.Config, scope string) *placement {
	pl := &placement{
		Stream: s, outer: outer, cfg: c, scope: scope, lease: lease{vm: s.plugin.vm},
		response: reading{from: s.GatewayStream, ticks: s.plugin.vm.ticks},
	}
	pl.region.pl, pl.held.pl, pl.facts.pl = pl, pl, pl
	return pl
}
