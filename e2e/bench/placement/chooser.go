package placement

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/warmgate/warmgate/internal/enginesim"
	"github.com/warmgate/warmgate/internal/simulate"
	"github.com/warmgate/warmgate/internal/simulate/engine"
)

// counter is what the policies here have in common: requests by engine, prompts that these are about to compute, and
// equals among which one is drawn.
type counter struct {
	fleet  []*engine.Engine
	rng    *rand.Rand
	n      []int // requests that are not answered
	coming []map[uint64]int
	first  map[*simulate.Request]bool // whether its first token has come
}

func newCounter(fleet []*engine.Engine, seed uint64) counter {
	c := counter{
		fleet: fleet, rng: rand.New(rand.NewPCG(seed, 41)), n: make([]int, len(fleet)),
		first: map[*simulate.Request]bool{},
	}
	for range fleet {
		c.coming = append(c.coming, map[uint64]int{})
	}
	return c
}

// least counts a request at the engine with the lowest cost, which it returns.
func (c *counter) least(r *simulate.Request, cost func(i int) float64) (best int) {
	lowest, ties := math.Inf(1), 0
	for i := range c.fleet {
		switch of := cost(i); {
		case of < lowest:
			best, lowest, ties = i, of, 1
		case of == lowest:
			if ties++; c.rng.IntN(ties) == 0 {
				best = i
			}
		}
	}
	c.count(r, best)
	return best
}

// count counts a request at an engine.
func (c *counter) count(r *simulate.Request, at int) {
	c.n[at]++
	c.first[r] = false
	for i := range r.Prompt {
		c.coming[at][r.Prompt[i].Name]++
	}
}

// uncached returns how many tokens of a prompt an engine would have to compute, once it has computed what it was sent.
// That is one at least, since its output is the next token.
func (c *counter) uncached(at int, prompt []engine.Part) float64 {
	coming := 0
	for i := range prompt {
		if c.coming[at][prompt[i].Name] == 0 {
			break
		}
		coming += prompt[i].Tokens
	}
	return float64(max(1, tokensOf(prompt)-max(coming, c.fleet[at].Cached(prompt))))
}

// First implements simulate.Chooser: the prompt is computed.
func (c *counter) First(_ time.Duration, r *simulate.Request) {
	c.first[r] = true
	of := c.coming[r.Server()]
	for i := range r.Prompt {
		name := r.Prompt[i].Name
		if of[name]--; of[name] == 0 {
			delete(of, name)
		}
	}
}

// Last implements simulate.Chooser.
func (c *counter) Last(now time.Duration, r *simulate.Request) {
	if !c.first[r] {
		c.First(now, r)
	}
	delete(c.first, r)
	c.n[r.Server()]--
}

func tokensOf(parts []engine.Part) (n int) {
	for i := range parts {
		n += parts[i].Tokens
	}
	return n
}

// lmetric multiplies the tokens of a prompt that an engine has not cached by its requests with this one (Zhang et al.:
// "LMetric: Simple is Better", 2026). It knows the caches, and what is about to be in them.
type lmetric struct{ counter }

func newLMetric(fleet []*engine.Engine, seed uint64) simulate.Chooser {
	return &lmetric{newCounter(fleet, seed)}
}

func (l *lmetric) Choose(_ time.Duration, r *simulate.Request) int {
	return l.least(r, func(i int) float64 { return l.uncached(i, r.Prompt) * float64(l.n[i]+1) })
}

// cacheAware is the rule of SGLang's router and of vLLM's, with their defaults: to where the longest beginning of the
// prompt went last if that is more than a part of it, else to the engine with the fewest requests; also to that one
// while the numbers of requests are far apart. It guesses caches by what it has sent.
type cacheAware struct {
	counter
	last map[uint64]int // engine, by the name of a part
}

const (
	cacheThreshold = 0.3
	balanceAbs     = 64
	balanceRel     = 1.5
)

func newCacheAware(fleet []*engine.Engine, seed uint64) simulate.Chooser {
	return &cacheAware{newCounter(fleet, seed), map[uint64]int{}}
}

func (c *cacheAware) Choose(_ time.Duration, r *simulate.Request) (at int) {
	matched, where := 0, 0
	for i := range r.Prompt {
		to, ok := c.last[r.Prompt[i].Name]
		if !ok {
			break
		}
		matched, where = matched+r.Prompt[i].Tokens, to
	}
	fewest, most := c.n[0], c.n[0]
	for _, n := range c.n {
		fewest, most = min(fewest, n), max(most, n)
	}
	uneven := most-fewest > balanceAbs && float64(most) > balanceRel*float64(fewest)
	if !uneven && float64(matched) > cacheThreshold*float64(tokensOf(r.Prompt)) {
		at = where
		c.count(r, at)
	} else {
		at = c.least(r, func(i int) float64 { return float64(c.n[i]) })
	}
	for i := range r.Prompt {
		c.last[r.Prompt[i].Name] = at
	}
	c.last[r.Name] = at
	return at
}

// prefixHash sends prompts to the engine that the beginning of the prompt is hashed to, or the next one on the ring
// that has no more than a quarter above the mean: consistent hashing with bounded loads.
type prefixHash struct{ counter }

const boundedBy = 1.25

func newPrefixHash(fleet []*engine.Engine, seed uint64) simulate.Chooser {
	return &prefixHash{newCounter(fleet, seed)}
}

func (p *prefixHash) Choose(_ time.Duration, r *simulate.Request) int {
	sum := 1
	for _, n := range p.n {
		sum += n
	}
	most := int(math.Ceil(boundedBy * float64(sum) / float64(len(p.n))))
	return p.least(r, func(i int) float64 {
		if p.n[i] >= most {
			return math.Inf(1)
		}
		return float64(enginesim.Mix(r.Prompt[0].Name+uint64(i)*977) >> 11)
	})
}

// clairvoyant knows caches, what is under way, the times of all engines and the length of the answer: it takes the
// engine where the request causes the least latency, its own and that of the others there. It is greedy, and so not
// the best that there is: it does not see who comes next.
type clairvoyant struct{ counter }

// Weights of the parts of the latency against that of the first token: answers, and what others wait for a prefill.
// With 1 for both the mean latency over all cells is 0.5 % lower and the mean TTFT 14 % higher.
const (
	answerWeight = 0.1
	stallWeight  = 0.5
)

func newClairvoyant(fleet []*engine.Engine, seed uint64) simulate.Chooser {
	return &clairvoyant{newCounter(fleet, seed)}
}

func (c *clairvoyant) Choose(_ time.Duration, r *simulate.Request) int {
	return c.least(r, func(i int) float64 {
		return causes(c.fleet[i], c.uncached(i, r.Prompt), float64(r.Answer))
	})
}

// causes returns the latency, in ms, that a request of so many uncached tokens and tokens of its answer causes at an
// engine.
func causes(e *engine.Engine, uncached, answer float64) float64 {
	if e.IsApart() {
		return causesApart(e, uncached, answer)
	}
	t, cfg, w := e.Times(), e.Config(), e.Work()
	n, slots := float64(e.Load()), float64(cfg.MaxNumSeqs)
	running, decodes := min(n, slots), float64(w.Decodes)
	step := t.DecodeStepMS + decodes*t.DecodeSeqMS
	prefill := func(tokens float64) float64 {
		return tokens*t.PrefillTokenMS + tokens/float64(cfg.MaxBatchedTokens)*step
	}
	first := t.PrefillOverheadMS + prefill(float64(w.Prefill)) + prefill(uncached)
	if n >= slots { // it waits until n-slots+1 of the requests there have ended
		each := float64(w.Left)/n*(t.DecodeStepMS+slots*t.DecodeSeqMS) + prefill(float64(w.Prefill))/n
		first += (n - slots + 1) / slots * each
	}
	own := answer * (t.DecodeStepMS + t.DecodeSeqMS*(running+1))
	others := stallWeight*running*uncached*t.PrefillTokenMS + answerWeight*running*answer*t.DecodeSeqMS
	return (first + answerWeight*own + others) / t.Speed
}

// causesApart is causes for engines whose requests do not slow each other down.
func causesApart(e *engine.Engine, uncached, answer float64) float64 {
	t, w := e.Times(), e.Work()
	n, slots := float64(e.Load()), float64(e.Config().MaxNumSeqs)
	step := t.DecodeStepMS + t.DecodeSeqMS
	prefill := func(tokens float64) float64 { return tokens / float64(e.Config().MaxBatchedTokens) * step }
	first := prefill(uncached)
	if n >= slots {
		first += (n - slots + 1) / slots * (float64(w.Left)*step + prefill(float64(w.Prefill))) / n
	}
	return (first + answerWeight*answer*step) / t.Speed
}
