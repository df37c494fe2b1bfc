package core

import (
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/host"
)

// readsLists reports whether the lists of the request's cluster are read, and are not known yet.
func (f *factUse) readsLists() bool {
	pl := f.pl
	if !pl.cfg.ReadsModelLists() {
		return false
	}
	cl := pl.plugin.vm.clusters[pl.scope]
	return cl == nil || cl.metrics.ListsUnread(pl.plugin.vm.Clock(), pl.cfg)
}

// awaitsLists reports whether the request waits until the lists of its cluster are known: it names a model, and is sent
// where that has been chosen.
func (f *factUse) awaitsLists() bool {
	pl := f.pl
	if !pl.cfg.ReadsModelLists() || pl.cfg.Shadow || pl.lease.reservation.request.ModelID == 0 {
		return false
	}
	w := &pl.metrics.waiter
	w.Context, w.Recovered, w.Known = pl.context, pl.grantRecovered, func() {
		if pl.phase == phaseListing {
			pl.goOn(f.listed())
		}
	}
	return pl.plugin.vm.lists.Await(w, pl.cluster.metrics, pl.cfg, pl.cfg.BodyTimeout)
}

// listed decides for a request that has waited for lists.
func (f *factUse) listed() host.Action {
	pl := f.pl
	v := pl.plugin.vm
	view := v.views.of(v.Clock(), pl.scope, pl.cfg)
	if view == nil {
		return pl.pass(lb.ReasonNoEndpoints)
	}
	return pl.place(view)
}
