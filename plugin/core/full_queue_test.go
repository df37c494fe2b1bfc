package core

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// among gives the requests tenants in turns.
func among(list []*visit, n int) []*visit {
	for i, v := range list {
		v.tenant = fmt.Sprint(v.class, i%n)
	}
	return list
}

// Twice as much of the interactive class as the servers can do, and half as much of the batch class, in a queue that is
// full all the time: each is served what it is owed.
func TestAFullQueueServesBothClasses(t *testing.T) {
	for order, owed := range map[string]float64{"weighted": 1.0 / 9, "strict": 0.1} {
		t.Run(order, func(t *testing.T) {
			const servers, slots, begin, span = 2, 8, 15 * time.Second, 40 * time.Second
			d := startFake(t, 2, servers, shippedConfig(t, slots, func(queue map[string]any) {
				queue["max_length"], queue["order"] = 125, order
				queue["max_wait"] = "60s" // so that nothing is hopeless
			}))
			d.advance(time.Second)
			rng := rand.New(rand.NewPCG(3, 1))
			high := among(visits(rng, "interactive", "", 2*servers*slots, 0, span), 4)
			low := among(visits(rng, "batch", "", 0.5*servers*slots, 0, span), 2)
			d.play(high, low)
			served := [2]int{}
			for i, list := range [][]*visit{high, low} {
				for _, v := range list {
					if v.began >= begin && v.began < span {
						served[i]++
					}
				}
			}
			all := served[0] + served[1]
			if part := float64(served[1]) / float64(all); part < 0.85*owed || part > 1.3*owed {
				t.Errorf("of %d, %.3f were of the batch class, which is owed %.3f", all, part, owed)
			} else {
				t.Logf("of %d, %.3f were of the batch class", all, part)
			}
		})
	}
}

// A tenant fills the queue in the interactive class. Another one with a batch request now and then is not refused.
func TestFloodOfATenantInAHigherClass(t *testing.T) {
	for _, order := range []string{"weighted", "strict"} {
		t.Run(order, func(t *testing.T) {
			const servers, slots = 2, 4
			d := startFake(t, 2, servers, shippedConfig(t, slots, func(queue map[string]any) {
				queue["max_length"], queue["order"], queue["max_wait"] = 60, order, "60s"
				delete(queue, "tenant_max_share")
			}))
			d.advance(time.Second)
			rng := rand.New(rand.NewPCG(4, 1))
			light := visits(rng, "batch", "light", 0.5, 4*time.Second, 30*time.Second)
			d.play(light, visits(rng, "interactive", "flood", 4*servers*slots, 0, 40*time.Second))
			for _, v := range light {
				if v.refused() {
					t.Errorf("the light tenant's request of %v: %+v", v.at, v.client.result)
				}
			}
		})
	}
}
