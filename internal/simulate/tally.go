package simulate

import "time"

// Reasons of requests that an engine has refused: its queue was full, or they would never fit into its memory.
const (
	engineBusy = "engine_busy"
	tooLong    = "too_long"
)

// tally is what is counted in a run.
type tally struct {
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
	perServer []int
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

func newTally(servers int) tally {
	return tally{
		refusals: map[string]int{}, perServer: make([]int, servers), classes: map[string]*classTally{},
		series: newSeries(),
	}
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
	t.requests++
	t.open++
	t.series.at(now).Sent++
}

func (t *tally) refused(now time.Duration, r *Request, reason string) {
	t.open--
	t.class(r).refused++
	t.refusals[reason]++
	t.series.at(now).Refused++
}

func (t *tally) first(now time.Duration, r *Request) {
	if r.Warm {
		return
	}
	ttft := now - r.sent
	t.ttft = append(t.ttft, float32(ttft.Seconds()))
	if r.Class != "" {
		c := t.class(r)
		c.ttft = append(c.ttft, float32(ttft.Seconds()))
	}
	t.waited += r.placed - r.sent
	t.queued += r.call.Queued()
	t.prompt += int64(r.call.PromptTokens())
	t.cached += int64(r.call.Cached())
	p := t.series.at(now)
	p.First++
	p.TTFT += ttft.Seconds()
	p.Prompt += r.call.PromptTokens()
	p.Cached += r.call.Cached()
}

func (t *tally) last(now time.Duration, r *Request) {
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
		t.perToken += (now - r.first).Seconds() / float64(n-1)
	}
	t.perServer[r.server]++
	p := t.series.at(now)
	p.Served++
	p.Tokens += r.call.Answer
	p.Open = t.open
}
