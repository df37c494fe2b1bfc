package core

import (
	"slices"

	"github.com/warmgate/warmgate/lb"
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
	s.traits.read(s.gateway)
	for _, h := range s.traits.headers {
		if slices.Contains(names, h[0]) {
			s.gateway.SetCluster(h[0], "")
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
	case pl.cfg.AmongClusters() && pl.cfg.Budget() != nil:
		return views.BudgetScope
	case pl.cfg.AmongClusters():
		return views.ClustersScope + pl.gateway.Route()
	case pl.cfg.Regions.Enabled():
		return pl.region.homeScope(cluster)
	case cluster == "":
		return pl.Cluster()
	}
	return cluster
}

// send sends the request to what was chosen.
func (s *steering) send() error {
	pl := s.pl
	l := &pl.lease
	r := &l.reservation
	if !pl.cfg.AmongClusters() {
		return pl.gateway.Steer(l.chosen, others(&r.plan, r.grant.Index))
	}
	l.steeredAt = pl.plugin.vm.ReadClock()
	pl.gateway.Unsteer()
	pl.gateway.SetCluster(pl.cfg.Clusters.Header, l.chosen)
	return nil
}

// leaveToGateway leaves the request to the gateway.
func (s *steering) leaveToGateway() {
	pl := s.pl
	pl.gateway.Unsteer()
	switch {
	case pl.cfg == nil:
	case pl.cfg.AmongClusters() && pl.lease.steeredAt > 0:
		pl.gateway.SetCluster(pl.cfg.Clusters.Header, "")
	case pl.region.to != "" && !pl.region.isAdopted():
		pl.region.recall()
	}
}

// server returns which candidate, or which else, serves the request, "" before one does: an address, or a cluster.
// The gateway may report a cluster that is made of others in their place: then the address decides, which is that of an
// endpoint of one of the candidates.
func (s *steering) server() string {
	pl := s.pl
	served := pl.gateway.ServedBy()
	if served == "" || !pl.cfg.AmongClusters() {
		return served
	}
	in, reported := &pl.cfg.Clusters, pl.Cluster()
	holds := func(name string) bool {
		v := pl.plugin.vm
		return lists(v.GW.KnownView(v.Clock(), in.Holds(name), pl.cfg), served)
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
