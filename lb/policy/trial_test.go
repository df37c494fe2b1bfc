package policy_test

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/cache"
	"github.com/warmgate/warmgate/lb/engines"
	"github.com/warmgate/warmgate/lb/health"
	"github.com/warmgate/warmgate/lb/health/healthtest"
	"github.com/warmgate/warmgate/lb/policy"
	"github.com/warmgate/warmgate/lb/storetest"
)

// The plan of a trial is that of the same request at that time, and a policy that was tried plans as one that was not.
func TestTrialsChangeNothing(t *testing.T) {
	for _, name := range []string{"global_least_request", "consistent_hash", "prefix_cache"} {
		settings := map[string]any{
			"prefix_cache": &policy.CacheConfig{
				Credit: 2, TTL: time.Hour, IndexMemory: lb.IndexMemory{Local: 1 << 20}, SessionAffinity: true,
			},
			"consistent_hash": &policy.HashConfig{LoadFactor: 1.25},
		}
		var policies [2]lb.Policy
		for i := range policies {
			p, err := policy.New(name, policy.Config{
				Unit: lb.Tokens, Cluster: health.ClusterConfig{ZonePenalty: 2}, Health: health.New(),
				Caches: cache.NewTracker(), Engines: engines.New(), Settings: settings[name],
			})
			if err != nil {
				t.Fatal(err)
			}
			policies[i] = p
		}
		v := healthtest.View(5)
		v.Zone, v.Endpoints[0].Zone, v.Endpoints[1].Zone = lb.Zone{Name: "a"}, lb.Zone{Name: "a"}, lb.Zone{Name: "b"}
		random, now := rand.New(rand.NewPCG(1, 2)), time.Hour
		for i := range 500 {
			now += time.Duration(random.IntN(2000)) * time.Millisecond
			if i%20 == 0 {
				now += time.Minute // nothing of the last term counts
			}
			r := lb.Request{
				PromptTokens: random.Int64N(5000), OutputTokens: 100, Random: random.Uint64(),
				Session: random.Uint64N(9), Blocks: storetest.Blocks(0, random.Uint64N(3)),
				PromptBytes: 1000, Idle: random.IntN(9) == 0,
			}
			want, _ := policies[0].Plan(now, &r, v)
			for range random.IntN(3) {
				tried := r
				tried.Trial = true
				if got, _ := policies[1].Plan(now, &tried, v); !reflect.DeepEqual(got, want) {
					t.Fatalf("%s: request %d is tried with\n%+v, and planned\n%+v", name, i, got, want)
				}
			}
			if got, _ := policies[1].Plan(now, &r, v); !reflect.DeepEqual(got, want) {
				t.Fatalf("%s: request %d is planned\n%+v, without trials\n%+v", name, i, got, want)
			}
		}
	}
}
