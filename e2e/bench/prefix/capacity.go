package prefix

import (
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/internal/enginesim"
	"github.com/warmgate/warmgate/internal/vllmsim"
)

// capacity is what the servers of a workload serve at most, if every block of a prompt that came before, in this
// request's script or in another, is cached wherever it is needed. No policy can reach that: it is a bound that depends
// on none.
type capacity struct {
	batch float64 // requests that all servers run at once: their slots, or as many as their caches have room for
	rate  float64 // requests a second with batches that full
	users float64 // scripts at once that keep batches that full: see at
}

// capacityOf takes the averages of the scripts of the seed.
func capacityOf(w *workload, seed uint64) capacity {
	scripts := w.scripts(seed)
	computed, held := demands(scripts)
	server := w.server
	server.MaxNumSeqs = compare.Batch(server, held)
	c := capacity{batch: float64(w.servers * server.MaxNumSeqs)}
	server.NumBlocks = 0 // what the batch has room for is known
	server.Tuning.Speed = 1
	c.rate = compare.Capacity(slices.Repeat([]vllmsim.Config{server}, w.servers), computed)
	var think time.Duration
	turns, longest := 0, 0
	for i := range scripts {
		turns += len(scripts[i].Turns)
		longest += scripts[i].Depth()
		for _, t := range scripts[i].Turns {
			think += t.Think
		}
	}
	thinking := c.rate * think.Seconds() / float64(turns)
	if w.inTurns {
		thinking = 0
	}
	c.users = (c.batch + thinking) * float64(longest) / float64(turns)
	return c
}

// load returns which share of the capacity the workload needs as it is.
func (c capacity) load(w *workload) float64 {
	if w.users > 0 {
		return float64(w.users) / c.users
	}
	return float64(w.n) / w.span.Seconds() / c.rate
}

// at returns the workload at a load, a share of the capacity. An open loop has that part of the rate. A closed loop has
// that part of the users whose requests, with those who think, would keep all batches full and no request waiting: by
// Little's law the batches themselves, and the users who think at that time, over the requests that a script has under
// way at once on average. A load above 1 therefore keeps so many requests waiting. There are scripts enough for each
// user to play two.
func (w *workload) at(load float64, c capacity) workload {
	out := *w
	if w.users == 0 {
		out.span = time.Duration(float64(w.n) / (load * c.rate) * float64(time.Second))
		return out
	}
	out.users = max(1, int(load*c.users+0.5))
	out.n = max(w.n, 2*out.users)
	return out
}

// demands returns for every request the tokens that must be computed at least, and the tokens that it holds and no
// other script does. The beginning that scripts share counts for the first of them.
func demands(scripts []script) (computed, held []loadgen.Request) {
	seen := map[uint64]bool{}
	for i := range scripts {
		s := &scripts[i]
		own := make([]int, len(s.Turns)) // tokens held before the answer
		for k, t := range s.Turns {
			var fresh int
			if t.Parent < 0 {
				fresh = unseen(seen, s, t.Add)
				own[k] = fresh
			} else {
				fresh = tokensOf(t.Add)
				own[k] = own[t.Parent] + s.Turns[t.Parent].Answer + fresh
			}
			computed = append(computed, loadgen.Request{Prompt: fresh, MaxTokens: t.Answer})
			held = append(held, loadgen.Request{Prompt: own[k], MaxTokens: t.Answer})
		}
	}
	return computed, held
}

// unseen returns how many tokens of a prompt were not in the beginning of any previous prompt, and records the prompt
// as seen.
func unseen(seen map[uint64]bool, s *script, messages []loadgen.Message) int {
	block := vllmsim.DefaultConfig().BlockSize * enginesim.BytesPerToken
	text := slices.Clone([]byte(s.Tools))
	for _, m := range messages {
		text = append(text, m.Content...)
	}
	known := 0
	digest := xxhash.New()
	for end := block; end <= len(text); end += block {
		digest.Write(text[end-block : end]) // a hash never fails to be written
		if key := digest.Sum64(); seen[key] {
			known = end
		} else {
			seen[key] = true
		}
	}
	return (len(text) - known + enginesim.BytesPerToken - 1) / enginesim.BytesPerToken
}

func tokensOf(messages []loadgen.Message) int {
	n := 0
	for _, m := range messages {
		n += (len(m.Content) + enginesim.BytesPerToken - 1) / enginesim.BytesPerToken
	}
	return n
}
