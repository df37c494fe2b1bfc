// Package views finds what a configuration chooses among: the endpoints of a cluster, or clusters, of which those are
// left out whose circuit breakers are open.
package views

import (
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/internal/recent"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/clusters"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/endpoints"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/stores"
)

// Views is the part of a VM that finds what a configuration chooses among: the endpoints of a cluster, or clusters.
//
// A choice among clusters is a choice like any other: each cluster is an endpoint of a view, with the cluster's name in
// place of an address. So policies, stores, queues and health are the same on both levels.
type Views struct {
	*host.Env
	stores   *stores.Stores
	clusters clusters.Known
	lists    *recent.Cache[clusterScope, *clusterList]
	ranks    []rankedView
}

// clusterScope is a configuration that chooses among clusters, for one route.
type clusterScope struct {
	config *config.Config
	scope  string
}

// clusterList is the clusters of a configuration.
type clusterList struct {
	view     *lb.View
	views    map[string]*lb.View // that were made lately, by the states of the clusters
	seen     []*lb.View          // of each cluster, as far as it is known
	usable   []bool              // whether it has an endpoint that may get a request; true where that is not known
	breakers breakers
}

// New returns the views of a VM.
func New(e *host.Env, st *stores.Stores, cs clusters.Known) *Views {
	return &Views{
		Env: e, stores: st, clusters: cs,
		lists: recent.New[clusterScope, *clusterList](endpoints.MaxClusters, endpoints.ClusterAge),
	}
}

// ClustersScope begins the name under which what is in flight in clusters is counted, before the route's: as for
// Higress's own plugin, the clusters of a route. No cluster of a gateway has such a name.
const ClustersScope = "clusters/"

// BudgetScope is that name for clusters with budgets: what a model backend takes is the same for all routes, and for
// the tasks of the admission API.
const BudgetScope = "budgets/clusters"

// Of returns the view that the configuration chooses from, nil if none is known: in the cluster with the name, or among
// the clusters of the scope.
func (v *Views) Of(now time.Duration, scope string, c *config.Config) *lb.View {
	if !c.AmongClusters() {
		return v.ranked(scope, v.GW.View(now, scope, c), c)
	}
	key := clusterScope{c, scope}
	l, known := v.lists.Get(now, key)
	if !known {
		l = newClusterList(c)
		v.lists.Put(now, key, l)
	}
	changed := l.view == nil
	for i, name := range c.Clusters.List {
		if view := v.GW.KnownView(now, c.Clusters.Holds(name), c); view != l.seen[i] {
			usable := isUsable(view)
			changed = changed || usable != l.usable[i]
			l.seen[i], l.usable[i] = view, usable
		}
	}
	if v.look(now, l, key) || changed {
		l.view = l.viewOf(scope, c)
	}
	return l.view
}

func newClusterList(c *config.Config) *clusterList {
	n := len(c.Clusters.List)
	l := &clusterList{
		views: map[string]*lb.View{}, seen: make([]*lb.View, n), usable: make([]bool, n), breakers: newBreakers(n),
	}
	for i := range l.usable {
		l.usable[i] = true
	}
	return l
}

// maxListViews is how many views of one list are kept: with circuit breakers they take turns, often many in a second.
const maxListViews = 16

func (l *clusterList) viewOf(scope string, c *config.Config) *lb.View {
	states := make([]byte, len(c.Clusters.List))
	for i := range states {
		switch {
		case !l.usable[i]:
			states[i] = byte(lb.Unhealthy)
		case l.breakers.open[i]:
			states[i] = byte(lb.Ejected)
		}
	}
	if view := l.views[string(states)]; view != nil {
		return view
	}
	if len(l.views) >= maxListViews {
		clear(l.views)
	}
	view := &lb.View{Cluster: scope, ListID: xxhash.Sum64String(strings.Join(c.Clusters.List, "\n")) | 1}
	for i, name := range c.Clusters.List {
		view.Endpoints = append(view.Endpoints, lb.Endpoint{Addr: name, State: lb.State(states[i])})
	}
	l.views[string(states)] = view
	return view
}

// isUsable reports whether a cluster has an endpoint that may get a request, or nothing is known of it.
func isUsable(v *lb.View) bool {
	if v == nil {
		return true
	}
	for i := range v.Endpoints {
		if s := v.Endpoints[i].State; s == lb.Healthy || s == lb.Degraded {
			return true
		}
	}
	return false
}
