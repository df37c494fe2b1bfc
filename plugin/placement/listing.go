package placement

import "github.com/warmgate/warmgate/lb"

// This file is how a request waits until the lists of models of its cluster are known.

// awaitsLists reports whether the request waits for them: it names a model, and is sent where that has been chosen.
func (pl *Placement) awaitsLists() bool {
	if !pl.Config.ReadsModelLists() || pl.Config.Shadow || pl.Lease.Reservation.Request.ModelID == 0 {
		return false
	}
	w := &pl.Metrics.Waiter
	w.Context, w.Recovered, w.Known = pl.Context, pl.driver.GrantRecovered, func() {
		if pl.Phase == PhaseListing {
			pl.driver.Answered(pl.listed())
		}
	}
	return pl.Shared.Lists.Await(w, pl.Cluster.Metrics, pl.Config, pl.Config.BodyTimeout)
}

// listed decides for a request that has waited for lists.
func (pl *Placement) listed() Result {
	view := pl.view(pl.Shared.Clock())
	if view == nil {
		return Result{Step: Native, Why: lb.ReasonNoEndpoints}
	}
	return pl.place(view)
}
