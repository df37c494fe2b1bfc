package clusters

import (
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/process"
)

// ExchangeShares adds the requests that were counted for rate_limit to those that other VMs have counted. A swap that
// is lost is tried again at the next tick.
func (cs Known) ExchangeShares(now time.Duration, kv lb.KV) {
	for _, cl := range cs {
		if !cl.Shares.Limited() {
			continue
		}
		raw, cas, _ := kv.Get(process.KeyShares + cl.Name) // where there is nothing yet, the last VM to write wins
		if !cl.Shares.Pending() {
			cl.Shares.Import(raw)
			continue
		}
		all := cl.Shares.Export(now, raw)
		if len(all) > 0 && kv.Set(process.KeyShares+cl.Name, all, cas) == nil {
			cl.Shares.ConfirmExport(all)
		}
	}
}

// ExchangeLimits has clusters learn push limits together with other VMs, where a configuration goes by them.
func (cs Known) ExchangeLimits(now time.Duration, kv lb.KV) {
	for _, cl := range cs {
		if cl.Pending {
			cl.Limits.Exchange(now, kv, process.KeyLimits+cl.Name)
		} else {
			cl.Limits.Alone() // what it has kept would be too old by the next time
		}
	}
}

// ExchangePaces has clusters learn how fast their endpoints are together with other VMs, where a policy goes by it.
func (cs Known) ExchangePaces(now time.Duration, kv lb.KV) {
	for _, cl := range cs {
		cl.Caches.Exchange(now, kv, process.KeyPaces+cl.Name)
		cl.Caches.ExchangeFirsts(now, kv, process.KeyFirsts+cl.Name)
	}
}
