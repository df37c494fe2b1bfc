package learned

import (
	"time"

	"github.com/cespare/xxhash/v2"
)

// In the queue each tenant has a turn of its own, by queue.tenant_header. That must not reward who makes up names: so
// tenants have it only once an answer to them has ended well in this VM. Until then all of them are one tenant, the
// newcomers, and wait by arrival.

const (
	// Newcomers is the queue's name for tenants of whom no answer is known. It is even, other than those of tenants.
	Newcomers = 2
	// maxTenants is how many tenants a VM knows: beyond, the rest is newcomers. More than wait by default.
	// sweepTenants is how often room is made among them.
	maxTenants   = 4096
	sweepTenants = time.Second
)

// Tenants are those whose answers have ended well.
type Tenants struct {
	known   map[uint64]evidence // by TenantName
	sweptAt time.Duration       // when room was made among them
}

// NewTenants knows none.
func NewTenants() Tenants { return Tenants{known: map[uint64]evidence{}} }

// TenantName returns what stands for a tenant in the queue.
func TenantName(name string) uint64 { return xxhash.Sum64String(name) | 1 }

// TurnOf returns the tenant with which one takes turns in the queue.
func (t *Tenants) TurnOf(tenant uint64) uint64 {
	if _, known := t.known[tenant]; known {
		return tenant
	}
	return Newcomers
}

// Answered notes that an answer to the tenant has ended well. With too many tenants it may stay a newcomer.
func (t *Tenants) Answered(now time.Duration, tenant uint64) {
	a, known := t.known[tenant]
	if known || len(t.known) < maxTenants || t.makeRoom(now) {
		a.add(now)
		t.known[tenant] = a
	}
}

// makeRoom forgets the tenants with the fewest answers, a quarter of all at most: so names that are used once take each
// other's places. It looks at all of them, and so does nothing more often than every sweepTenants.
func (t *Tenants) makeRoom(now time.Duration) bool {
	if now-t.sweptAt < sweepTenants {
		return false
	}
	t.sweptAt = now
	fewest := maxEvidence
	for _, a := range t.known {
		fewest = min(fewest, a.left(now))
	}
	room := maxTenants / 4
	for tenant, a := range t.known {
		if room > 0 && a.left(now) == fewest {
			delete(t.known, tenant)
			room--
		}
	}
	return true
}
