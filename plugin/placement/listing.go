package placement

import "github.com/warmgate/warmgate/lb"

// This file is how a request waits until the lists of models of its cluster are known, and what becomes of one for a
// model that is in none of them.

// awaitsLists reports whether the request waits for them: it names a model, and is sent where that has been chosen.
func (pl *Placement) awaitsLists(view *lb.View) bool {
	if !pl.Config.ReadsModelLists() || pl.Config.Shadow || pl.Lease.Reservation.Request.ModelID == 0 {
		return false
	}
	w := &pl.Metrics.Waiter
	w.Context, w.Recovered, w.Known = pl.Context, pl.driver.GrantRecovered, func() {
		if pl.Phase == PhaseListing {
			pl.driver.Answered(pl.listed())
		}
	}
	return pl.Shared.Lists.Await(w, pl.Cluster.Metrics, pl.Config, pl.Config.BodyTimeout,
		pl.isUnlisted(view))
}

// isUnlisted reports whether the request is to be refused if its model is still in no list.
func (b *basis) isUnlisted(view *lb.View) bool {
	r := &b.Lease.Reservation.Request
	return b.Config.RefusesUnlisted() && r.ModelID != 0 &&
		b.Cluster.Facts.Unlisted(b.Shared.Clock(), r.ModelID, r.ModelName, view)
}

// lacksModel reports whether no endpoint has the request's model. Lists that are not new say nothing of that.
func (b *basis) lacksModel(view *lb.View) bool {
	return b.isUnlisted(view) && b.Cluster.Metrics.ListsAreNew(b.Shared.Clock(), b.Config)
}

// listed decides for a request that has waited for lists.
func (pl *Placement) listed() Result {
	view := pl.view(pl.Shared.Clock())
	if view == nil {
		return Result{Step: Native, Why: lb.ReasonNoEndpoints}
	}
	return pl.place(view)
}
