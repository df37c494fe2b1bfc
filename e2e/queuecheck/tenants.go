package queuecheck

import "time"

// flow is one tenant of a class.
type flow struct{ class, tenant string }

// fairness is what the tenants were served. One that begins to wait has no claim to what others were served before: it
// starts where the tenant started that was granted last. And what was served before a time at which nobody waited does
// not count at all.
type fairness struct {
	served  map[flow]float64
	latest  map[string]float64 // by class: served of the tenant that was granted last, before that
	waiting map[flow]bool      // at the latest grant
	until   time.Duration      // when somebody waited last, as far as is known
}

// reset forgets all service: nobody waits.
func (f *fairness) reset() {
	f.served, f.latest, f.waiting = map[flow]float64{}, map[string]float64{}, nil
}

func (f *fairness) admit(waiting []*record) {
	now := map[flow]bool{}
	for _, w := range waiting {
		k := flow{w.Class, w.Tenant}
		if !now[k] && !f.waiting[k] {
			f.served[k] = max(f.served[k], f.latest[k.class])
		}
		now[k] = true
	}
	f.waiting = now
}

// checkTenants checks that the tenant of g was not served more than another tenant of the class that waits.
func (c *checker) checkTenants(f *fairness, g *record, rivals []*record, others bool) {
	own := flow{g.Class, g.Tenant}
	for _, w := range rivals {
		other := flow{w.Class, w.Tenant}
		if w.Class == g.Class && f.served[own] > f.served[other]+c.Tenants {
			c.overtaken(RuleTenants, w, g)
			break
		}
	}
	if g.entered < g.ended || others { // what is granted while nobody waits is not counted
		f.latest[g.Class] = f.served[own]
		f.served[own] += g.cost()
	}
}
