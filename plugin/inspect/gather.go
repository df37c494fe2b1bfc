package inspect

import (
	"time"

	"github.com/warmgate/warmgate/internal/state"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/engines"
	"github.com/warmgate/warmgate/lb/region"
	"github.com/warmgate/warmgate/metrics"
	"github.com/warmgate/warmgate/plugin/discovery"
	"github.com/warmgate/warmgate/plugin/process"
)

// This file completes what VMs know of clusters by what is the same for all: what is in flight, what waits, and the
// metrics of engines.

// gather completes an answer, and answers the calls that wait. Redis is asked for all clusters that are counted there;
// one for which it does not answer is shown as the gateway counts it.
func (in *Inspector) gather(now time.Duration) {
	list, leftOut := in.allFacts(now)
	all := make([]state.Cluster, len(list))
	open := 1 // questions, and this function
	closed := func() {
		if open--; open > 0 {
			return
		}
		in.shown = shown{in.ReadClock(), clustersText(all), leftOut}
		in.done()
	}
	for i := range list {
		f, cl := &list[i], &all[i]
		*cl = state.Cluster{
			Name: f.name, Policy: f.config.Policy, Unit: f.config.Unit.String(), Endpoints: f.endpoints,
			LeftOut: f.leftOut,
		}
		in.addSamples(now, f, cl)
		_, redis := in.stores.Of(f.config)
		switch {
		case redis == nil:
			cl.Store = "embedded"
			in.count(now, f, cl)
			continue
		case !redis.Remote.Ready(now) || len(cl.Endpoints) == 0:
			cl.Store = "fallback"
			in.count(now, f, cl)
			continue
		}
		open++
		redis.Remote.Room(now, f.name, f.addrs(), func(loads []lb.Load, waits lb.QueueStats, err error) {
			if cl.Store = "redis"; err != nil {
				cl.Store = "fallback"
				in.count(now, f, cl)
			} else {
				f.add(cl, loads, waits)
				in.hear(f, loads)
			}
			closed()
		})
		in.wakeAt(now, now+f.config.ReserveTimeout)
	}
	closed()
}

func (f *facts) addrs() []string {
	addrs := make([]string, len(f.endpoints))
	for i := range addrs {
		addrs[i] = f.endpoints[i].Addr
	}
	return addrs
}

// count adds what the store in the gateway's memory counts.
func (in *Inspector) count(now time.Duration, f *facts, cl *state.Cluster) {
	loads, err := in.stores.Local.Loads(f.name, f.addrs(), nil)
	if err != nil {
		loads = make([]lb.Load, len(f.endpoints))
	}
	f.add(cl, loads, in.stores.Local.Queue(now, f.name))
}

// add adds what is in flight and what waits.
func (f *facts) add(cl *state.Cluster, loads []lb.Load, waits lb.QueueStats) {
	for i, l := range loads {
		cl.Endpoints[i].Requests, cl.Endpoints[i].Tokens = l.Requests, l.Tokens
	}
	if q := &f.config.Queue; q.Enabled() {
		for i := range q.Classes {
			c := &q.Classes[i]
			cl.Classes = append(cl.Classes, state.Class{Name: c.Name, Waiting: int64(waits.ByClass[c.ID])})
		}
	}
}

// addSamples adds what the VMs have published of the metrics of engines, as far as that is fresh.
func (in *Inspector) addSamples(now time.Duration, f *facts, cl *state.Cluster) {
	raw, _, err := in.GW.KV().Get(process.KeySamples + f.name)
	if err != nil {
		return
	}
	all, err := discovery.ParseEngineSamples(raw)
	if err != nil {
		return
	}
	for i := range cl.Endpoints {
		s, known := all.By[cl.Endpoints[i].Addr]
		if known && !s.Frozen && now-s.FreshAt <= f.config.Engines.StaleAfter {
			cl.Endpoints[i].Engine = engineOf(now, &s)
		}
	}
}

func engineOf(now time.Duration, s *engines.Sample) *state.Engine {
	value := func(f metrics.Field) float64 {
		v, _ := s.Value(f)
		return v
	}
	return &state.Engine{
		AgeMS: (now - s.At).Milliseconds(), Running: value(metrics.Running), Waiting: value(metrics.Waiting),
		KVCache: value(metrics.KVUse),
	}
}

// answer returns what is known now.
func (in *Inspector) answer(now time.Duration, since int64) string {
	s := state.State{
		Format: state.Format, Version: in.version, AtMS: in.GW.Wall().Milliseconds(), LeftOut: in.shown.leftOut,
	}
	s.VMs, _ = in.stores.Local.Owners(now)
	s.Region, s.Regions = in.regionsNow(now)
	var decisions string
	decisions, s.Lost = in.Decisions.toldSince(now, since)
	return stateText(&s, in.shown.clusters, decisions)
}

// regionsNow returns the name of this region, of several the first, and what is known of the others.
func (in *Inspector) regionsNow(now time.Duration) (name string, list []state.Region) {
	in.regions.EachPeer(now, func(home, peer string, s region.Status) {
		if name == "" {
			name = home
		}
		if home == name {
			r := state.Region{
				Name: peer, Available: s.Available, Adopted: s.Adopted, RTTMS: s.RTT.Milliseconds(), ProbeAgeMS: -1,
			}
			if s.Age >= 0 {
				r.ProbeAgeMS = s.Age.Milliseconds()
			}
			list = append(list, r)
		}
	})
	return name, list
}

// hear keeps what is in flight in Redis, for the decisions until the next look.
func (in *Inspector) hear(f *facts, loads []lb.Load) {
	heard := make(map[string]lb.Load, len(loads))
	for i, l := range loads {
		heard[f.endpoints[i].Addr] = l
	}
	if in.heard == nil || len(in.heard) >= maxClusters {
		in.heard = map[string]map[string]lb.Load{}
	}
	in.heard[f.name] = heard
}

// Heard returns what was in flight in Redis at the candidates of a plan, at the latest look; before the first one, what
// is of this gateway.
func (in *Inspector) Heard(p *lb.Plan) []lb.Load {
	heard := in.heard[p.Scope]
	loads, addrs := make([]lb.Load, len(p.Candidates)), make([]string, len(p.Candidates))
	for i := range loads {
		addrs[i] = p.Candidates[i].Addr
		loads[i] = heard[addrs[i]]
	}
	if heard == nil {
		loads, _ = in.stores.Local.Loads(p.Scope, addrs, nil)
	}
	return loads
}
