package core

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/e2e/streamtest"
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
			d := startShipped(t, servers, slots, func(queue map[string]any) {
				queue["max_length"], queue["order"] = 125, order
				if order == "strict" {
					queue["max_wait"] = "60s" // within 20 s too few can wait until they are aged: see docs/overload.md
				}
			})
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

// bothStores run a test with counts in the gateway and in Redis.
var bothStores = []struct {
	name  string
	start func(t *testing.T, servers int, config string) *fakeDriver
}{
	{"embedded", func(t *testing.T, servers int, config string) *fakeDriver {
		return startFake(t, 2, servers, config)
	}},
	{"Redis", startInRedis},
}

// A tenant fills the queue in the interactive class. Another one with a batch request now and then is not refused.
func TestFloodOfATenantInAHigherClass(t *testing.T) {
	for _, store := range bothStores {
		for _, order := range []string{"weighted", "strict"} {
			if store.name == "Redis" && order == "strict" {
				continue // by the clock of Redis, which is not the test's, nobody has waited for long
			}
			t.Run(store.name+"/"+order, func(t *testing.T) {
				const servers, slots = 2, 4
				d := store.start(t, servers, shippedConfig(t, slots, func(queue map[string]any) {
					queue["max_length"], queue["order"], queue["max_wait"] = 60, order, "60s"
					delete(queue, "tenant_max_share")
				}))
				d.advance(time.Second)
				rng := rand.New(rand.NewPCG(4, 1))
				light := visits(rng, "batch", "light", 0.5, 4*time.Second, 30*time.Second)
				d.play(light, visits(rng, "interactive", "flood", 4*servers*slots, 0, 40*time.Second))
				for _, v := range light {
					if v.refused() {
						t.Errorf("the light tenant's request of %v: %+v", v.at, v.client.Result())
					}
				}
			})
		}
	}
}

// askBytes sends a request of a tenant with a prompt of so many bytes, to one worker and the other in turns.
func (d *fakeDriver) askBytes(tenant string, i, size int) *fakeStream {
	body := fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"%d %s"}]}`, i, strings.Repeat("abc ", size/4))
	headers := [][2]string{
		{"x-warmgate-class", "batch"}, {"x-warmgate-tenant", tenant}, {"content-length", fmt.Sprint(len(body))},
	}
	c := d.client(i%2, streamtest.Request{Headers: headers, Frames: []string{body}})
	d.advance(4 * time.Millisecond)
	return c
}

// A tenant fills what the gateway may hold of bodies. Another one is not refused; of the former, the youngest are, and
// are told when all that wait would get through.
func TestFloodOfBytes(t *testing.T) {
	const servers, slots, size = 2, 4, 200 << 10
	config := shippedConfig(t, slots, func(queue map[string]any) { queue["max_wait"] = "3600s" })
	for _, store := range bothStores {
		t.Run(store.name, func(t *testing.T) {
			d := store.start(t, servers, config)
			d.advance(time.Second)
			for i := range 8 { // both tenants are known to both workers
				d.askBytes([]string{"light", "flood"}[i/2%2], i, 100).Finish()
			}
			for i := range servers * slots {
				d.askBytes("flood", i, 100)
			}
			var flood []*fakeStream
			for i := range 360 {
				flood = append(flood, d.askBytes("flood", i, size))
			}
			ended := func() (n int) {
				for _, c := range flood {
					if c.Ended {
						n++
					}
				}
				return n
			}
			before := ended()
			if before == 0 || flood[len(flood)-1].Result().Status != 429 {
				t.Fatalf("%d of the flood were refused", before)
			}
			for i := range 10 {
				c := d.askBytes("light", i, size)
				if d.advance(50 * time.Millisecond); c.Ended {
					t.Errorf("the light tenant: %+v", c.Result())
				}
			}
			if n := ended() - before; n < 8 || n > 12 {
				t.Errorf("%d left for 10 of the same size", n)
			}
			for i, c := range flood {
				full := strings.Contains(c.Result().Body, "max_queue_size_exceeded")
				if c.Ended && (!full || i < len(flood)/2 || c.Result().Headers["retry-after"] == "") {
					t.Errorf("%d of the flood: %+v", i, c.Result())
				}
			}
			for _, w := range d.workers {
				if h := w.vm.Waiters; h.Bytes > 32<<20 || len(h.Beyond) > 0 {
					t.Errorf("%d bytes are held, %d are beyond", h.Bytes, len(h.Beyond))
				}
			}
		})
	}
}

// startInRedis starts two workers that count in Redis.
func startInRedis(t *testing.T, servers int, config string) *fakeDriver {
	d := &fakeDriver{fakeProcess: newFakeProcess(t, 2)}
	d.attachRedis(t, redisserver.StartT(t, redisserver.Options{})).latency = time.Millisecond
	d.SetEndpoints(make([]streamtest.Endpoint, servers))
	redis := `"lb_config":{"serviceFQDN":"redis.static","password":"my secret",`
	if !d.configure(strings.Replace(config, `"lb_config":{`, redis, 1)) {
		t.Fatal("the configuration was refused")
	}
	return d
}
