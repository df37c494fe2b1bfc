package placement

import (
	"cmp"
	"slices"
	"time"

	"github.com/warmgate/warmgate/internal/enginesim"
)

// Foresight is how a schedule that knows everything uses that.
type Foresight struct {
	Trees  bool    // the requests of the script that began first go first; else those that delay all least
	Loyal  bool    // a request waits for the server that has most of its prompt, unless another one is empty
	Credit float64 // how often a token counts that must be computed because it is not cached
	Memory float64 // the part of a server's memory that running requests may fill, 0 to 1; the rest is for prompts
}

// limit is a schedule that no gateway can have.
type limit struct {
	how     Foresight
	servers []*enginesim.Engine
	waiting []*held
}

// held is a request, and where it was handed to.
type held struct {
	*Request
	place  func(now time.Duration, server int)
	shared int // leading blocks of the prompt that were cached there
}

// Limit is a schedule that knows what the servers have in their caches at every moment, how far each answer is, and how
// long all will become. It holds every request until a server can run it to its end without taking memory from another,
// and chooses the server where it delays all requests least, itself included. It is a very good schedule, no upper
// bound: it does not know what will come.
func Limit(how Foresight) Maker {
	return func(_ uint64, servers []*enginesim.Engine) Policy {
		return &limit{how: how, servers: servers}
	}
}

func (p *limit) Choose(now time.Duration, r *Request, place func(time.Duration, int)) {
	p.waiting = append(p.waiting, &held{Request: r, place: place})
	p.hand(now)
}

func (p *limit) First(time.Duration, *Request) {}

func (p *limit) Last(now time.Duration, _ *Request) { p.hand(now) }

// hand hands over what fits.
func (p *limit) hand(now time.Duration) {
	for len(p.waiting) > 0 {
		choices, tried := p.choices(), make([]int, len(p.servers))
		i := slices.IndexFunc(choices, func(c choice) bool {
			tried[c.server]++
			return tried[c.server] <= mostTried && p.fits(c.server, c.held)
		})
		if i < 0 {
			return
		}
		c := choices[i]
		p.waiting = slices.DeleteFunc(p.waiting, func(h *held) bool { return h == c.held })
		c.policy = c.held
		c.shared = p.servers[c.server].Cached(c.chain) / p.servers[c.server].Config().BlockSize
		c.place(now, c.server)
	}
}

// mostTried is how many requests are tried at a server, the best first, before it counts as full.
const mostTried = 4

// choice is a request and a server for it.
type choice struct {
	*held
	server int
	cost   float64 // ms of delay, of all requests together
}

// choices returns what may be done next, the best first.
func (p *limit) choices() (all []choice) {
	for i, s := range p.servers {
		var left []int
		for _, r := range s.Requests() {
			left = append(left, r.Tokens-r.Generated())
		}
		if len(left) >= s.Config().MaxNumSeqs {
			continue
		}
		for _, h := range p.waiting {
			if !p.how.Loyal || len(left) == 0 || s.Cached(h.chain) >= p.warmest(h) {
				all = append(all, choice{h, i, p.cost(s, h, left)})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b choice) int {
		if p.how.Trees && a.script != b.script {
			return a.script - b.script
		}
		return cmp.Compare(a.cost, b.cost)
	})
	return all
}

// warmest returns how many tokens of a prompt a server has at most.
func (p *limit) warmest(h *held) (most int) {
	for _, s := range p.servers {
		most = max(most, s.Cached(h.chain))
	}
	return most
}

// cost returns by how much a request delays itself and those with so many tokens left at a server.
func (p *limit) cost(s *enginesim.Engine, h *held, left []int) float64 {
	t := s.Times()
	missing := float64(len(h.prompt)/4 - s.Cached(h.chain))
	cost := p.how.Credit * (t.PrefillOverheadMS + t.PrefillTokenMS*missing) * float64(1+len(left))
	cost += float64(h.Answer) * (t.DecodeStepMS + t.DecodeSeqMS*float64(1+len(left)))
	for _, n := range left {
		cost += t.DecodeSeqMS * float64(min(n, h.Answer))
	}
	return cost
}

// running is a request in a server: tokens that it holds, and that are left.
type running struct {
	*held
	shared, holds, left int
}

// fits reports whether a server can run a request to its end beside those that it has, in the memory for that. Each
// step adds a token to every answer. A block of a prompt that was cached is common to all who found it there.
func (p *limit) fits(server int, h *held) bool {
	s := p.servers[server]
	c := s.Config()
	all := []running{{h, s.Cached(h.chain) / c.BlockSize, len(h.prompt) / 4, h.Answer}}
	for _, r := range s.Requests() {
		q, n := r.Owner.(*Request).policy.(*held), r.Generated()
		all = append(all, running{q, q.shared, len(q.prompt)/4 + n, q.Answer - n})
	}
	slices.SortFunc(all, func(a, b running) int { return b.left - a.left })
	owned, found, common := map[uint64]bool{}, map[uint64]bool{}, 0
	for n, last := range all {
		for i, name := range last.chain {
			if i < last.shared {
				if owned[name] || found[name] {
					common++
				}
				found[name] = true
				continue
			}
			if found[name] && !owned[name] {
				common++
			}
			owned[name] = true
		}
		held := -common // when this one ends, all before it still run
		for _, q := range all[:n+1] {
			held += (q.holds + last.left + c.BlockSize - 1) / c.BlockSize
		}
		if float64(held) > p.how.Memory*float64(c.NumBlocks) {
			return len(all) == 1
		}
	}
	return true
}
