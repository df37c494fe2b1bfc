package core

import (
	"slices"
	"strings"

	"github.com/warmgate/warmgate/internal/statname"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/stats"
	"github.com/warmgate/warmgate/plugin/views"
)

// This file is what is different for a request that is sent to one of several clusters (lb_type cluster): its route
// takes the cluster by a header, the cluster that serves it is found by name, and what only the gateway has refused may
// be the cluster's fault.

// stripClusterHeaders removes the headers by which routes take clusters: what a client sends in them never decides,
// whatever becomes of the request. Changing a header has the gateway select the route again.
func (s *Stream) stripClusterHeaders() {
	names := s.plugin.headers
	if set := s.plugin.set; set != nil {
		names = set.ClusterHeaders()
	}
	if len(names) == 0 {
		return
	}
	s.Traits.Read(s.Gateway)
	for _, h := range s.Traits.Headers {
		if slices.Contains(names, h[0]) {
			s.Gateway.SetCluster(h[0], "")
		}
	}
}

// steering is where a request is sent: to an endpoint or a cluster that was chosen, or where the gateway likes.
type steering struct{ pl *choice }

// scopeOf returns the name under which what the request is counted: the cluster's, or that of the clusters of its
// route.
func (s *steering) scopeOf(cluster string) string {
	pl := s.pl
	switch {
	case pl.Config.AmongClusters() && pl.Config.Budget() != nil:
		return views.BudgetScope
	case pl.Config.AmongClusters():
		return views.ClustersScope + pl.Gateway.Route()
	case pl.Config.Regions.Enabled():
		return pl.region.homeScope(cluster)
	case cluster == "":
		return pl.routedTo()
	}
	return cluster
}

// send sends the request to what was chosen.
func (s *steering) send() error {
	pl := s.pl
	l := &pl.lease
	r := &l.reservation
	if !pl.Config.AmongClusters() {
		return pl.Gateway.Steer(l.chosen, others(&r.plan, r.grant.Index))
	}
	l.steeredAt = pl.plugin.vm.ReadClock()
	pl.Gateway.Unsteer()
	pl.Gateway.SetCluster(pl.Config.Clusters.Header, l.chosen)
	return nil
}

// maxOverflows is how often a request is planned again because a circuit breaker has no room for it.
const maxOverflows = 8

// overflows reports whether the cluster that was granted has no room for the request: others have come first since it
// was planned.
func (s *steering) overflows(cluster string) bool {
	pl := s.pl
	if !pl.Config.AmongClusters() || pl.Config.Shadow {
		return false
	}
	l := &pl.lease
	return pl.plugin.vm.views.Overflows(pl.Scope, pl.Config, cluster, l.reservation.grant.Load.Requests, l.redis != nil)
}

// chooseAnother plans a request again that does not fit into the cluster that was granted.
func (s *steering) chooseAnother(cluster string) host.Action {
	pl := s.pl
	l := &pl.lease
	if p := &l.reservation.plan; len(p.Prefix.Blocks) > 0 {
		l.store.ForgetPrompt(l.now(), l.reservation.id, p, cluster, l.reservation.grant.Cached)
	}
	pl.charge.undoGrant(cluster)
	if l.overflows++; l.overflows > maxOverflows {
		pl.closeLease()
		return pl.pass(lb.ReasonNoClusterAvailable)
	}
	return pl.wait.replan()
}

// leaveToGateway leaves the request to the gateway.
func (s *steering) leaveToGateway() {
	pl := s.pl
	pl.Gateway.Unsteer()
	switch {
	case pl.Config == nil:
	case pl.Config.AmongClusters() && pl.lease.steeredAt > 0:
		pl.Gateway.SetCluster(pl.Config.Clusters.Header, "")
	case pl.region.to != "" && !pl.region.isAdopted():
		pl.region.recall()
	}
}

// server returns which candidate, or which else, serves the request, "" before one does: an address, or a cluster.
// The gateway may report a cluster that is made of others in their place: then the address decides, which is that of an
// endpoint of one of the candidates.
func (s *steering) server() string {
	pl := s.pl
	served := pl.Gateway.ServedBy()
	if served == "" || !pl.Config.AmongClusters() {
		return served
	}
	in, reported := &pl.Config.Clusters, pl.routedTo()
	holds := func(name string) bool {
		v := pl.plugin.vm
		return lists(v.GW.KnownView(v.Clock(), in.Holds(name), pl.Config), served)
	}
	if holds(reported) {
		return reported
	}
	if i := slices.IndexFunc(in.List, holds); i >= 0 {
		return in.List[i]
	}
	return reported
}

// lists reports whether the address is one of the view's endpoints.
func lists(v *lb.View, addr string) bool {
	return v != nil && slices.ContainsFunc(v.Endpoints, func(e lb.Endpoint) bool { return e.Addr == addr })
}

// verdict classifies the end of the request for the health of what served it. A cluster is to blame for what keeps
// every request from it: it has no healthy endpoint, a circuit breaker is open, or there is no such cluster. A client
// that leaves before there is an answer says nothing of it.
func (j *judging) verdict() lb.Verdict {
	pl := j.pl
	if verdict, judged := j.answerVerdict(); judged {
		return verdict
	}
	verdict := pl.response.verdict(pl.plugin.vm.Clock(), pl.sentAt(), &pl.Body, pl.Gateway)
	if !pl.Config.AmongClusters() || verdict != lb.Neutral && verdict != lb.Overload {
		return verdict
	}
	details := pl.Gateway.Details()
	if isUnreachable(details) {
		return lb.Failure
	}
	if verdict == lb.Overload && pl.response.status == 0 && !strings.Contains(details, "upstream_reset") {
		return lb.Neutral
	}
	return verdict
}

// measureCluster puts into the outcome how long a cluster has taken, and counts the request among those of the cluster.
func (j *judging) measureCluster(o *lb.Outcome, verdict lb.Verdict) {
	pl := j.pl
	l := &pl.lease
	if l.steeredAt == 0 {
		return
	}
	if pl.Computes() {
		o.Whole = max(1, pl.plugin.vm.ReadClock()-l.steeredAt)
		if pl.response.begunAt > 0 {
			o.FirstPart = max(1, pl.response.begunAt-l.steeredAt)
		}
	}
	result := "failed"
	switch verdict {
	case lb.Success:
		result = "served"
	case lb.Neutral, lb.Rejected:
		result = "other"
	}
	pl.plugin.vm.Stats.CountIf(statname.With(stats.Clusters, "cluster", l.addr, "result", result), 1)
}
