package engines

import (
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/metrics"
)

// fresh reports whether there is a sample that is not older than the given age: [Config].StaleAfter. A stale
// sample does not count, as if the endpoint had none.
func (e *engine) fresh(now, age time.Duration) bool {
	return e != nil && now-e.FreshAt <= age && !(e.Frozen && e.CountsTokens())
}

// freshSamples returns the sample of each candidate, nil if there is no fresh one; how many there are; and how many
// candidates are not known to sleep.
func (g *Samples) freshSamples(
	now time.Duration, cs []lb.Candidate, age time.Duration,
) (samples []*engine, fresh, awake int) {
	for i := range cs {
		e := g.engines[cs[i].Addr]
		if !e.fresh(now, age) {
			e = nil
		} else {
			fresh++
		}
		if e == nil || !e.asleep() {
			awake++
		}
		samples = append(samples, e)
	}
	return samples, fresh, awake
}

// CountFresh returns how many endpoints have a sample that is not older than the given age.
func (g *Samples) CountFresh(now, age time.Duration) int {
	n := 0
	for _, e := range g.engines {
		if e.fresh(now, age) {
			n++
		}
	}
	return n
}

// CountMissing returns how many of the endpoints with a fresh sample lack one of the fields.
func (g *Samples) CountMissing(now, age time.Duration, fields ...metrics.Field) int {
	n := 0
	for _, e := range g.engines {
		if !e.fresh(now, age) {
			continue
		}
		for _, f := range fields {
			if _, ok := e.Value(f); !ok {
				n++
				break
			}
		}
	}
	return n
}
