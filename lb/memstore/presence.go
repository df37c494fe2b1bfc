package memstore

import (
	"time"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
)

// presence is what shows the other owners that this one is alive: its entry in the owner directory, and its life.
type presence struct {
	kv      lb.KV
	owner   uint64
	index   int           // in the owner directory, -1 until the first reservation
	shownAt time.Duration // see showLife
}

// register renews the owner in the owner directory, or adds it there. It reports whether the owner was there under its
// index. If not, its leases were returned and its checkpoints may be overwritten by another owner.
func (p *presence) register(now time.Duration) (kept bool, err error) {
	index := -1
	err = updateDirectory(p.kv, func(d directory) (directory, error) {
		kept = d.holds(p.index, p.owner)
		var err error
		d, index, err = d.register(p.owner, p.index, now)
		return d, err
	})
	if err == nil && !kept {
		p.index = index
	}
	return kept, err
}

// showLife writes that this owner is there. If that fails, its next poll tries again.
func (p *presence) showLife(now time.Duration) {
	if p.index < 0 || now == p.shownAt {
		return
	}
	if p.kv.Set(lifeKey(p.index), wire.Writer(nil).Uint64(p.owner).Duration(now), 0) == nil {
		p.shownAt = now
	}
}
