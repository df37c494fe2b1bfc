package main

import (
	"errors"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// Ejections are decided by each VM and shared by all: an endpoint that fails five requests of one worker is out for
// the others too. Each cluster has one key.

func (v *vm) importEjections() {
	for _, cl := range v.clusters {
		if shared, _, err := v.gw.KV().Get(keyEjections + cl.name); err == nil {
			cl.health.Import(v.now(), shared)
		}
	}
}

func (v *vm) exportEjections(now time.Duration) {
	for _, cl := range v.clusters {
		shared, cas, err := v.gw.KV().Get(keyEjections + cl.name)
		if err != nil && !errors.Is(err, lb.ErrNotFound) {
			continue
		}
		merged, changed := cl.health.Export(now, shared)
		if !changed {
			continue
		}
		if len(merged) == 0 {
			merged = []byte{0}
		}
		// A swap that is lost is tried again at the next tick.
		if v.gw.KV().Set(keyEjections+cl.name, merged, cas) == nil {
			cl.health.Exported()
		}
	}
}
