package placement

import (
	"slices"
	"strings"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// This file is how it is known that a cluster has no endpoint, where requests wait for the first one (queue.from_zero).

// AwaitsEndpoint reports whether a request for which nothing is healthy waits for an endpoint: while there is none, and
// for queue.max_wait after that while those that have come are not healthy yet. Later they are taken for sick, and the
// gateway decides.
func (b *basis) AwaitsEndpoint() bool {
	if b.Config.Shadow || b.Idle() {
		return false
	}
	view := b.Lease.Reservation.view
	return b.isAtZero() || view != nil && view.IsNew(b.Shared.Clock(), b.Config.Queue.MaxWait) &&
		b.hasNone(lb.Draining, lb.Unhealthy)
}

// isAtZero reports whether the cluster has no endpoint that stays, as it was planned by last, and requests wait then.
func (b *basis) isAtZero() bool { return b.hasNone(lb.Draining) }

// hasNone reports whether the cluster has no endpoint but those in such states, and requests wait then.
func (b *basis) hasNone(but ...lb.State) bool {
	view := b.Lease.Reservation.view
	if !b.Config.WaitsFromZero() || view == nil {
		return false
	}
	return b.isOutdated(view) ||
		!slices.ContainsFunc(view.Endpoints, func(e lb.Endpoint) bool { return !slices.Contains(but, e.State) })
}

// isOutdated reports whether the gateway has no endpoint any more, though the view has.
func (b *basis) isOutdated(view *lb.View) bool {
	return b.Cluster.IsOutdated(b.Shared.Clock(), view, b.Config)
}

// noteNone notes that the gateway had no endpoint for the request, if that is how it has ended, so that others wait.
func (b *basis) noteNone(now time.Duration) {
	if b.Config.WaitsFromZero() && strings.Contains(b.Gateway.Details(), "no_healthy_upstream") {
		b.Cluster.NoteNone(now, b.Lease.Reservation.view)
		b.Shared.GW.Hurry(now)
	}
}
