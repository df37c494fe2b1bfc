package core

import (
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/process"
)

// exchangeShares adds the requests that were counted for rate_limit to those that other VMs have counted. A swap that
// is lost is tried again at the next tick.
func (cs clusters) exchangeShares(now time.Duration, kv lb.KV) {
	for _, cl := range cs {
		if !cl.shares.Limited() {
			continue
		}
		raw, cas, _ := kv.Get(process.KeyShares + cl.name) // where there is nothing yet, the last VM to write wins
		if !cl.shares.Pending() {
			cl.shares.Import(raw)
			continue
		}
		all := cl.shares.Export(now, raw)
		if len(all) > 0 && kv.Set(process.KeyShares+cl.name, all, cas) == nil {
			cl.shares.ConfirmExport(all)
		}
	}
}

// exchangeLimits has clusters learn push limits together with other VMs, where a configuration goes by them.
func (cs clusters) exchangeLimits(now time.Duration, kv lb.KV) {
	for _, cl := range cs {
		if cl.pending {
			cl.limits.Exchange(now, kv, process.KeyLimits+cl.name)
		} else {
			cl.limits.Alone() // what it has kept would be too old by the next time
		}
	}
}
