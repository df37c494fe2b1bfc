package metrics

import "math"

// A server with data parallelism has several engines behind one port, its ranks, each with a batch, a queue and a KV
// cache of its own. Its page has a series for each: vLLM by the label engine (v1, from 0.8 on), SGLang by dp_rank. Both
// serve a request on the rank that its header X-data-parallel-rank names: vLLM by the place among the engines of this
// server, which the label counts over all servers of a deployment with --data-parallel-hybrid-lb; SGLang by dp_rank.

// MaxRanks is how many ranks of a page are told apart, those with neighbouring numbers; further ones count for the
// whole page only.
const MaxRanks = 64

// ranks are the sums of a page by rank.
type ranks struct {
	list  [MaxRanks]*pageSums // by the label, modulo MaxRanks
	ids   [MaxRanks]uint32    // their labels
	first uint32              // the lowest of these
	all   pageSums            // of series without one
}

// common are the fields that are the same for each rank where they have no label of ranks: when the server began,
// vLLM's adapters, and with some versions the size of the KV cache.
var common = [...]Field{KVBlocks, BlockTokens, MaxAdapters, Started}

// ParseRanks reads a page into snap, like [Parser.Parse], and returns what there is of each rank alone: at i, of that
// which a request names by i. There are none unless the page tells several ranks apart. Of a rank that is missing
// between others nothing is found.
func (p *Parser) ParseRanks(text []byte, snap *Snapshot) []Snapshot {
	s := pageSums{load: snap, by: &ranks{first: math.MaxUint32, all: pageSums{load: &Snapshot{}}}}
	p.sum(text, &s)
	return s.by.finish(snap)
}

// of returns the sums of the rank that a series is of, or of those of none; nil for what no rank can be.
func (r *ranks) of(labels []byte) *pageSums {
	text := label(labels, "engine")
	if len(text) == 0 {
		text = label(labels, "dp_rank")
	}
	id := smallInt(text)
	switch {
	case len(text) == 0:
		return &r.all
	case id == 0 && string(text) != "0":
		return nil
	}
	at := id % MaxRanks
	if r.list[at] == nil {
		r.list[at], r.ids[at], r.first = &pageSums{load: &Snapshot{}}, id, min(r.first, id)
	}
	if r.ids[at] != id {
		return nil
	}
	return r.list[at]
}

// finish turns the sums into a Snapshot for each rank of the engine that the whole page is of.
func (r *ranks) finish(whole *Snapshot) []Snapshot {
	if whole.Engine != VLLM && whole.Engine != SGLang {
		return nil
	}
	r.all.finish()
	if whole.Engine == SGLang {
		r.first = 0
	}
	var out []Snapshot
	for i := range uint32(MaxRanks) {
		s := r.list[(r.first+i)%MaxRanks]
		if s == nil || r.ids[(r.first+i)%MaxRanks] != r.first+i {
			continue
		}
		s.load.Cut = whole.Cut
		if s.finish(); s.load.Engine != whole.Engine {
			continue
		}
		s.load.complete(r.all.load)
		for whole.Engine == SGLang && len(out) < int(i) { // one that is missing
			out = append(out, Snapshot{})
		}
		out = append(out, *s.load)
	}
	if len(out) < 2 {
		return nil
	}
	return out
}

// complete adds the common fields that s lacks.
func (s *Snapshot) complete(all *Snapshot) {
	for _, f := range common {
		_, known := s.Value(f)
		if v, there := all.Value(f); there && !known && (all.Engine == s.Engine || f == Started) {
			if s.set(f, v); f == MaxAdapters {
				s.Loaded, s.Waiting = all.Loaded, all.Waiting
			}
		}
	}
}

// drop discards what was read of a field.
func (r *ranks) drop(f Field) {
	r.all.fields[f] = sum{}
	for _, of := range r.list {
		if of != nil {
			of.fields[f] = sum{}
		}
	}
}
