package core

import "github.com/warmgate/warmgate/lb"

// This file is how a request waits until the lists of models of its cluster are known.

// awaitsLists reports whether the request waits for them: it names a model, and is sent where that has been chosen.
func (pl *placement) awaitsLists() bool {
	if !pl.Config.ReadsModelLists() || pl.Config.Shadow || pl.lease.reservation.request.ModelID == 0 {
		return false
	}
	w := &pl.Metrics.Waiter
	w.Context, w.Recovered, w.Known = pl.Context, pl.driver.GrantRecovered, func() {
		if pl.phase == phaseListing {
			pl.driver.answered(pl.listed())
		}
	}
	return pl.shared.lists.Await(w, pl.Cluster.Metrics, pl.Config, pl.Config.BodyTimeout)
}

// listed decides for a request that has waited for lists.
func (pl *placement) listed() result {
	v := pl.shared
	view := v.views.Of(v.Clock(), pl.Scope, pl.Config)
	if view == nil {
		return result{step: stepLeft, why: lb.ReasonNoEndpoints}
	}
	return pl.place(view)
}
