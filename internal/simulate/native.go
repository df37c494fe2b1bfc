package simulate

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// native is a policy of the gateway's own. It counts what it has sent itself, as one worker of Envoy does.
type native struct {
	gateway
	rng    *rand.Rand
	counts []int
	per    int // engines of an endpoint
	next   int
	choose func(n *native, r *Request) int
}

// natives are the gateway's own policies, by the names that Envoy has for them.
var natives = map[string]func(*native, *Request) int{
	"round_robin": func(n *native, _ *Request) int {
		n.next++
		return (n.next - 1) % len(n.counts)
	},
	"random": func(n *native, _ *Request) int { return n.rng.IntN(len(n.counts)) },
	// the better of two random ones
	"least_request": func(n *native, _ *Request) int {
		a, b := n.rng.IntN(len(n.counts)), n.rng.IntN(len(n.counts))
		if n.counts[b] < n.counts[a] {
			return b
		}
		return a
	},
	// where the session belongs, by rendezvous hashing: of Envoy's ring only that matters to a load
	"ring_hash": func(n *native, r *Request) (best int) {
		most := uint64(0)
		for i := range n.counts {
			if h := name(r.Session, uint64(i)); h > most {
				best, most = i, h
			}
		}
		return best
	},
}

// Natives returns the names of the gateway's own policies.
func Natives() (names []string) {
	for n := range natives {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// newNative returns a policy over so many endpoints, of so many engines each.
func newNative(policy string, endpoints, per int, g gateway, seed uint64) *native {
	return &native{
		gateway: g, rng: rand.New(rand.NewPCG(seed, 4)), counts: make([]int, endpoints), per: per,
		choose: natives[policy],
	}
}

func (n *native) route(_ time.Duration, r *Request) {
	i := n.choose(n, r)
	n.counts[i]++
	n.place(r, i)
}

func (n *native) first(time.Duration, *Request) {}

func (n *native) last(_ time.Duration, r *Request, _ lb.Verdict) {
	n.counts[r.Server()/n.per]--
}
