package live

import (
	"context"
	"slices"
	"time"

	"github.com/warmgate/warmgate/internal/snapshot"
)

// Frames makes frames of snapshots, one after the other. It is pure: time is that of the snapshots.
type Frames struct {
	gateways map[string]*history // by their names
}

// history is what earlier snapshots said of a gateway.
type history struct {
	uptimeS int64
	hosts   rates // requests of endpoints
	stats   rates // counters of the plugin
	cached  []tokens
	seen    seen
}

// Poll takes a snapshot after the other, at most one in the given time, and shows a frame of each, until ctx ends.
func Poll(
	ctx context.Context, every time.Duration, take func(context.Context) *snapshot.Snapshot, show func(Frame),
) {
	var frames Frames
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for ctx.Err() == nil {
		if s := take(ctx); ctx.Err() == nil {
			show(frames.Next(s))
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// Next returns the frame of a snapshot. Rates are 0 in the first frame, and in that of a gateway that is new.
func (f *Frames) Next(s *snapshot.Snapshot) Frame {
	if f.gateways == nil {
		f.gateways = map[string]*history{}
	}
	out := Frame{AtMS: s.At.UnixMilli(), Gateways: make([]Gateway, 0, len(s.Gateways))}
	for i := range s.Gateways {
		g := &s.Gateways[i]
		h := f.gateways[g.Name]
		if h == nil {
			h = new(history)
			f.gateways[g.Name] = h
		}
		out.Gateways = append(out.Gateways, h.gateway(out.AtMS, g))
	}
	return out
}

// gateway returns what is shown of a gateway.
func (h *history) gateway(atMS int64, g *snapshot.Gateway) Gateway {
	out := Gateway{
		Name: g.Name, Region: g.Region, Problems: g.Problems, Clusters: []Cluster{},
		Up: g.Server != nil || g.State != nil || g.Clusters != nil, // a hardened gateway shows no server
	}
	if g.Server != nil {
		if g.Server.UptimeS < h.uptimeS { // another process, which counts from 0
			h.hosts.before, h.stats.before, h.cached = nil, nil, nil
		}
		h.uptimeS = g.Server.UptimeS
	}
	c := counted{gateway: g, hosts: &h.hosts}
	if g.Clusters != nil {
		h.hosts.begin(atMS)
	}
	if g.Statistics != nil {
		h.stats.begin(atMS)
		c.stats = index(g.Statistics, &h.stats)
		out.Reasons = c.reasons()
		h.count(atMS, &c)
	}
	if s := g.State; s != nil {
		out.Version = s.Version
		if s.Region != "" {
			out.Region = s.Region
		}
		out.Decisions = h.seen.add(s)
	} else {
		out.Version = c.version()
	}
	out.Problems = append(slices.Clone(out.Problems), c.remarks()...)
	out.Clusters = c.clusters()
	out.Regions = c.regions()
	h.shares(&c, out.Clusters)
	h.hosts.end()
	h.stats.end()
	return out
}

// rates turns counters into numbers per second.
type rates struct {
	at          int64              // when they were read last, in ms
	seconds     float64            // from the reading before to this one; 0: there was none before
	before, now map[string]float64 // now is nil outside of a reading
}

// begin begins a reading.
func (r *rates) begin(atMS int64) {
	r.seconds = 0
	if r.at > 0 {
		r.seconds = max(0, float64(atMS-r.at)/1000)
	}
	r.at, r.now = atMS, map[string]float64{}
}

// of returns by how much a counter has grown per second. One that has fallen, or is new, has begun at 0.
func (r *rates) of(key string, v float64) float64 {
	if r.now == nil {
		return 0
	}
	r.now[key] = v
	if r.seconds == 0 {
		return 0
	}
	if before := r.before[key]; before <= v {
		v -= before
	}
	return v / r.seconds
}

// ofKnown is of for a counter that may have been there before anybody looked: of a new one nothing is known, unless the
// process is new, too.
func (r *rates) ofKnown(key string, v float64) float64 {
	_, known := r.before[key]
	if perS := r.of(key, v); known || r.before == nil {
		return perS
	}
	return 0
}

func (r *rates) end() {
	if r.now != nil {
		r.before, r.now = r.now, nil
	}
}
