package simulate

import "time"

// Reasons of requests that an engine has refused: its queue was full, or they would never fit into its memory.
const (
	engineBusy = "engine_busy"
	tooLong    = "too_long"
)

// tally is what is counted in a run.
type tally struct {
	all       *tally // that this is a region's part of, nil for none
	requests  int
	served    int
	warm      int            // of these, that are in no other figure
	refusals  map[string]int // by reason
	prompt    int64          // tokens
	cached    int64
	output    int64
	ttft      []float32 // seconds from a request to the first token
	total     []float32 // to the last one
	perToken  float64   // sum of the mean times between tokens, in seconds
	waited    time.Duration
	queued    time.Duration // in engines
	forwarded int           // to other regions
	open      int
	classes   map[string]*classTally
	series    series
	ends      time.Duration // of the last answer
}

// classTally is what is counted of a service class.
type classTally struct {
	served, refused int
	ttft            []float32
}

// newTally returns an empty tally that is a part of another one, which may be nil.
func newTally(all *tally) *tally {
	return &tally{all: all, refusals: map[string]int{}, classes: map[string]*classTally{}, series: newSeries()}
}

// class returns the tally of a request's class.
func (t *tally) class(r *Request) *classTally {
	c := t.classes[r.Class]
	if c == nil {
		c = &classTally{}
		t.classes[r.Class] = c
	}
	return c
}

// ended is how many requests have come to their end.
func (t *tally) ended() int { return t.requests - t.open }

func (t *tally) sent(now time.Duration) {
	if t.all != nil {
		t.all.sent(now)
	}
	t.requests++
	t.open++
	t.series.at(now).Sent++
}

func (t *tally) forwards(now time.Duration) {
	if t.all != nil {
		t.all.forwards(now)
	}
	t.forwarded++
	t.series.at(now).Forwarded++
}

func (t *tally) refused(now time.Duration, r *Request, reason string) {
	if t.all != nil {
		t.all.refused(now, r, reason)
	}
	t.open--
	t.class(r).refused++
	t.refusals[reason]++
	t.series.at(now).Refused++
}

func (t *tally) first(now time.Duration, r *Request) {
	if r.Warm {
		return
	}
	if t.all != nil {
		t.all.first(now, r)
	}
	ttft := now - r.sent
	t.ttft = append(t.ttft, float32(ttft.Seconds()))
	if r.Class != "" {
		c := t.class(r)
		c.ttft = append(c.ttft, float32(ttft.Seconds()))
	}
	computed := r // where its prompt was
	if r.prompt != nil {
		computed = r.prompt
		t.waited += computed.waited
		t.queued += computed.call.Queued()
	}
	t.waited += r.waited
	t.queued += r.call.Queued()
	t.prompt += int64(r.call.PromptTokens())
	t.cached += int64(computed.call.Cached())
	p := t.series.at(now)
	p.First++
	p.TTFT += ttft.Seconds()
	p.Prompt += r.call.PromptTokens()
	p.Cached += computed.call.Cached()
}

func (t *tally) last(now time.Duration, r *Request) {
	if t.all != nil {
		t.all.last(now, r)
	}
	t.open--
	t.served++
	t.ends = max(t.ends, now)
	if r.Warm {
		t.warm++
		return
	}
	t.class(r).served++
	t.output += int64(r.call.Answer)
	t.total = append(t.total, float32((now - r.sent).Seconds()))
	if n := r.call.Answer; n > 1 {
		t.perToken += (now - r.trip.way - r.first).Seconds() / float64(n-1)
	}
	p := t.series.at(now)
	p.Served++
	p.Tokens += r.call.Answer
	p.Open = t.open
}
