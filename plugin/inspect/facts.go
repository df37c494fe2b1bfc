package inspect

import (
	"slices"
	"time"

	"github.com/warmgate/warmgate/internal/order"
	"github.com/warmgate/warmgate/internal/state"
	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/clusters"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/process"
)

// A VM knows the clusters that it has had requests for. While somebody watches, each tells the others of those, once a
// second: so that any of them can answer for all.

const (
	// maxClusters is how many clusters are shown.
	maxClusters = 64
	// maxEndpoints is how many endpoints of a cluster are shown.
	maxEndpoints = 256
)

// facts are what one VM knows of a cluster, without what is the same for all: what is in flight and what waits.
type facts struct {
	config    *config.Config
	usedAt    time.Duration
	endpoints []state.Endpoint
	leftOut   int
	name      string
}

// ownFacts returns what this VM knows. Clusters behind those that can be shown are only counted.
func (in *Inspector) ownFacts(now time.Duration) []facts {
	var list []facts
	for _, name := range order.Keys(in.clusters) {
		cl := in.clusters[name]
		if cl.Latest == nil {
			continue
		}
		f := facts{name: cl.Name, config: cl.Latest, usedAt: cl.UsedAt}
		if len(list) < maxClusters {
			if view := in.viewOf(now, cl); view != nil {
				cl.Views[view.ListID] = view
			}
			f.addEndpoints(now, cl)
		}
		list = append(list, f)
	}
	return list
}

// viewOf returns the endpoints of a cluster as they are by now, nil where the gateway shows them to requests alone, or
// the configuration lists them.
func (in *Inspector) viewOf(now time.Duration, cl *clusters.Cluster) *lb.View {
	switch {
	case cl.Latest.AmongClusters():
		return in.views.Of(now, cl.Name, cl.Latest)
	case len(cl.Latest.EnvoyCfg.Endpoints) > 0:
		return nil
	}
	return in.views.Known(now, cl.Name, cl.Latest)
}

func (f *facts) addEndpoints(now time.Duration, cl *clusters.Cluster) {
	shown := map[string]bool{}
	for _, id := range order.Keys(cl.Views) {
		view := cl.Views[id]
		usable := cl.Usable(now, view, f.config)
		for i := range view.Endpoints {
			e := &view.Endpoints[i]
			switch {
			case shown[e.Addr]:
			case len(f.endpoints) == maxEndpoints:
				f.leftOut++
			default:
				shown[e.Addr] = true
				f.endpoints = append(f.endpoints, endpointOf(now, cl, f.config, e, usable))
			}
		}
	}
}

// endpointOf returns what is known of an endpoint; usable are those of its list that may get a request.
func endpointOf(
	now time.Duration, cl *clusters.Cluster, c *config.Config, e *lb.Endpoint, usable []lb.Candidate,
) state.Endpoint {
	out := state.Endpoint{Addr: e.Addr, Zone: e.Zone.Name, Health: e.State.String()}
	if i := slices.IndexFunc(usable, func(c lb.Candidate) bool { return c.Addr == e.Addr }); i >= 0 {
		out.Weight, out.Cap, out.TokenCap = usable[i].Weight, usable[i].Cap, usable[i].TokenCap
	} else if health := clusters.HealthOf(c); cl.Health.EjectedSince(-1, now, e.Addr, &health) {
		out.Health = lb.Ejected.String()
	}
	if cl.Pending {
		out.PushLimit, _ = cl.Limits.Limit(e.Addr)
	}
	return out
}

// tell tells the other VMs what this one knows: for each cluster the name, which part of the configurations in force it
// was last used by, when, and its endpoints.
func (in *Inspector) tell(now time.Duration) {
	in.watch.tell(process.KeyClusters, packFacts(in.ownFacts(now), in.core.Parts()))
}

func packFacts(list []facts, parts []*config.Config) []byte {
	w := wire.Writer(nil)
	for _, f := range list {
		part := slices.Index(parts, f.config)
		if part < 0 {
			continue
		}
		w = w.Text(f.name).Uvarint(uint64(part)).Duration(f.usedAt).
			Uvarint(uint64(f.leftOut)).Uvarint(uint64(len(f.endpoints)))
		for i := range f.endpoints {
			e := &f.endpoints[i]
			w = w.Text(e.Addr).Text(e.Zone).Text(e.Health).Float64(e.Weight).
				Int64(e.Cap).Int64(e.TokenCap).Int64(e.PushLimit)
		}
	}
	return w
}

// readFacts reads what another VM has told.
func readFacts(told []byte, parts []*config.Config) (list []facts) {
	for r := wire.NewReader(told); r.Len() > 0; {
		f := facts{name: string(r.Text())}
		part := r.Uvarint()
		f.usedAt, f.leftOut = r.Duration(), int(r.Uvarint())
		for range r.Count(1) {
			f.endpoints = append(f.endpoints, state.Endpoint{
				Addr: string(r.Text()), Zone: string(r.Text()), Health: string(r.Text()), Weight: r.Float64(),
				Cap: r.Int64(), TokenCap: r.Int64(), PushLimit: r.Int64(),
			})
		}
		if !r.OK() {
			return list
		}
		if part < uint64(len(parts)) {
			f.config = parts[part]
			list = append(list, f)
		}
	}
	return list
}

// allFacts returns what the VMs know of each cluster, by name: what the one knows that has used it last.
func (in *Inspector) allFacts(now time.Duration) (list []facts, leftOut int) {
	all := map[string]facts{}
	add := func(list []facts) {
		for _, f := range list {
			if f.usedAt >= all[f.name].usedAt {
				all[f.name] = f
			}
		}
	}
	in.watch.each(now, process.KeyClusters, func(mine bool, told []byte) {
		if !mine {
			add(readFacts(told, in.core.Parts()))
		}
	})
	add(in.ownFacts(now))
	for _, name := range order.Keys(all) {
		if len(list) == maxClusters {
			return list, len(all) - maxClusters
		}
		list = append(list, all[name])
	}
	return list, 0
}
