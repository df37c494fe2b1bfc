package clusters

import (
	"maps"
	"time"

	"github.com/warmgate/warmgate/lb"
)

const (
	// maxAsked is how many models have names at the same time.
	maxAsked = 64
	// askedAge is how long a model counts as one that is asked for.
	askedAge = 10 * time.Minute
)

// Asked is the models that a cluster has served while its endpoints differed in what they have: facts about models know
// these by digests only.
type Asked map[uint64]AskedModel // by lb.Request.ModelID

// AskedModel is such a model.
type AskedModel struct {
	Label string // in statistics
	name  uint64
	at    time.Duration
}

// Note notes that a request for a model was served, which label returns the label of.
func (a Asked) Note(now time.Duration, r *lb.Request, label func() string) {
	m, known := a[r.ModelID]
	if r.ModelID == 0 || !known && len(a) >= maxAsked {
		return
	}
	if !known {
		m = AskedModel{Label: label(), name: r.ModelName}
	}
	m.at = now
	a[r.ModelID] = m
}

// Lacking returns how many endpoints lack each of the models that are asked for, by their labels.
func (cl *Cluster) Lacking(now time.Duration) map[string]int {
	maps.DeleteFunc(cl.Asked, func(_ uint64, m AskedModel) bool { return now-m.at >= askedAge })
	if len(cl.Asked) == 0 {
		return nil
	}
	var endpoints []uint64
	seen := map[string]bool{}
	for _, view := range cl.Views {
		for i := range view.Endpoints {
			if addr := lb.ServerOf(view.Endpoints[i].Addr); !seen[addr] {
				seen[addr] = true
				endpoints = append(endpoints, lb.EndpointHash(addr))
			}
		}
	}
	lacking := map[string]int{}
	for id, m := range cl.Asked { // of one name there is one for each API
		lacking[m.Label] = max(lacking[m.Label], cl.Facts.Lacking(now, id, m.name, endpoints))
	}
	return lacking
}
