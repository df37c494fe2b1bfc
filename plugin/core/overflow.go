package core

import (
	"slices"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/host"
)

// overflows reports whether the cluster that was granted has no room for the request: others have come first since it
// was planned.
func (s *steering) overflows(cluster string) bool {
	pl := s.pl
	if !pl.cfg.AmongClusters() || pl.cfg.Shadow {
		return false
	}
	v, r := pl.plugin.vm, &pl.lease.reservation
	l, known := v.views.lists.Get(v.Clock(), clusterScope{pl.cfg, pl.scope})
	if !known || !l.breakers.known {
		return false
	}
	b, i := &l.breakers, slices.Index(pl.cfg.Clusters.List, cluster)
	limits, _ := v.GW.Breakers(pl.cfg)
	if _, limited := limits[pl.cfg.Clusters.Holds(cluster)]; !limited || i < 0 {
		return false
	}
	n := r.grant.Load.Requests
	if pl.lease.redis != nil { // that is of all gateways
		loads, err := v.stores.local.Loads(pl.scope, pl.cfg.Clusters.List[i:i+1], nil)
		if err != nil {
			return false
		}
		n = loads[0].Requests
	}
	b.near = b.near || 2*n >= b.room[i]
	return n > b.room[i]
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
