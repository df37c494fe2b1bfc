package core

import "time"

// exchangeShares adds what was counted for rate_limit to what the other VMs have counted. A swap that is lost is tried again at the next
// tick.
func (v *VM) exchangeShares(now time.Duration) {
	for _, cl := range v.clusters {
		if !cl.shares.Limited() {
			continue
		}
		raw, cas, _ := v.gw.KV().Get(keyShares + cl.name) // where there is nothing yet, the last VM to write wins
		if !cl.shares.Pending() {
			cl.shares.Import(raw)
			continue
		}
		all := cl.shares.Export(now, raw)
		if len(all) > 0 && v.gw.KV().Set(keyShares+cl.name, all, cas) == nil {
			cl.shares.ConfirmExport(all)
		}
	}
}
