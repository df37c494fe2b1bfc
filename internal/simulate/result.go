package simulate

import (
	"maps"
	"slices"
	"time"
)

// Result is the outcome of a run. Times are in seconds.
type Result struct {
	Policy   string         `json:"policy"`
	Requests int            `json:"requests"`
	Served   int            `json:"served"`
	Refused  map[string]int `json:"refused,omitempty"` // by reason
	Unplaced int            `json:"unplaced"`          // for which the plugin had no plan, and the gateway chose

	Took      float64 `json:"took_s"`       // until the last answer
	TTFT      Times   `json:"ttft_s"`       // from the request to the first token
	Total     Times   `json:"total_s"`      // to the last one
	PerToken  float64 `json:"per_token_s"`  // between two tokens of an answer, on average
	Waited    float64 `json:"waited_s"`     // in the gateway, on average
	Queued    float64 `json:"queued_s"`     // in the engine, on average
	TokensPer float64 `json:"tokens_per_s"` // of answers
	Prompt    int64   `json:"prompt_tokens"`
	Output    int64   `json:"output_tokens"`
	Cached    float64 `json:"cached_share"` // of the tokens of prompts
	Uneven    float64 `json:"uneven"`       // requests of the busiest endpoint over the mean of its pool; of all pools the most
	Preempted int64   `json:"preempted"`    // times that an engine took a request's memory for others
	Forwarded int     `json:"forwarded"`    // requests that were sent to another region

	Classes []Class  `json:"classes,omitempty"` // by name; none if requests name none
	Regions []Region `json:"regions,omitempty"` // where the users are

	Endpoints int           `json:"endpoints"`
	Every     time.Duration `json:"-"` // length of a point
	Points    []Point       `json:"-"`
	TTFTs     []float32     `json:"-"` // in order of size
}

// Region is what the users of a region had, wherever they were served; Endpoints, Uneven and Preempted are of the
// engines there.
type Region struct {
	Name string `json:"region"`
	*Result
}

// Class is what a service class had.
type Class struct {
	Name    string `json:"name"`
	Served  int    `json:"served"`
	Refused int    `json:"refused"`
	TTFT    Times  `json:"ttft_s"`
}

// Times are a distribution, in seconds.
type Times struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
}

// timesOf returns the distribution of times, which it sorts. Without any all are 0.
func timesOf(all []float32) (t Times) {
	if len(all) == 0 {
		return t
	}
	slices.Sort(all)
	for _, v := range all {
		t.Mean += float64(v)
	}
	t.Mean /= float64(len(all))
	at := func(share float64) float64 { return float64(all[min(len(all)-1, int(share*float64(len(all))))]) }
	t.P50, t.P90, t.P99 = at(0.5), at(0.9), at(0.99)
	return t
}

// result returns the figures of all users, with those by region.
func (r *run) result(name string) *Result {
	all := r.all.result(name)
	for i, p := range r.pools {
		if all.take(p); r.layout.RTT != nil {
			of := r.tallies[i].result(name)
			of.take(p)
			all.Regions = append(all.Regions, Region{r.layout.Pools[i].Name, of})
		}
	}
	for _, f := range r.fronts {
		if f.product == nil {
			continue
		}
		if all.Unplaced += f.product.lost; r.layout.RTT != nil {
			all.Regions[f.region].Unplaced += f.product.lost
		}
	}
	return all
}

// take adds what is known of the engines of a pool.
func (r *Result) take(p *pool) {
	r.Endpoints += len(p.fleet)
	r.Uneven = max(r.Uneven, p.uneven())
	r.Preempted += p.preemptions()
}

// result returns the figures.
func (t *tally) result(name string) *Result {
	out := &Result{
		Policy: name, Requests: t.requests, Served: t.served, Refused: t.refusals, Took: t.ends.Seconds(),
		TTFT: timesOf(t.ttft), Total: timesOf(t.total), Prompt: t.prompt, Output: t.output, Forwarded: t.forwarded,
		Every: t.series.every, Points: t.series.points, TTFTs: t.ttft,
	}
	for _, name := range slices.Sorted(maps.Keys(t.classes)) {
		if c := t.classes[name]; name != "" {
			out.Classes = append(out.Classes, Class{name, c.served, c.refused, timesOf(c.ttft)})
		}
	}
	if t.served == t.warm {
		return out
	}
	n := float64(t.served - t.warm)
	out.PerToken, out.Waited, out.Queued = t.perToken/n, t.waited.Seconds()/n, t.queued.Seconds()/n
	out.TokensPer = float64(t.output) / out.Took
	out.Cached = float64(t.cached) / float64(t.prompt)
	return out
}
