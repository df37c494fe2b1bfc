package audit

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/wait"
)

// waitHeader is the plugin's debug header with the time that a request has waited in a queue.
const waitHeader = "x-warmgate-wait-ms"

// Tally is the outcomes of the requests of a Traffic.
type Tally struct {
	Sent    int
	OK      int
	Left    int            // clients that left as planned
	Meant   int            // failures of the kind that is meant to be
	Excused int            // failures that were excused one by one
	Waited  int            // requests that have waited in a queue, by the plugin's debug header
	Errors  map[string]int // the other failures, by kind, as in loadgen.Sample
	First   string         // the first of these in words
	ByHost  map[string]int // requests with a response, whatever its status, by the server's x-sim-id
	Span    time.Duration  // from the first request to the last, pauses left out
}

// Failed returns the number of requests that neither completed nor left as planned, nor failed as they were meant to or
// with an excuse.
func (t *Tally) Failed() int { return t.Sent - t.OK - t.Left - t.Meant - t.Excused }

// Add adds another tally, of requests that were sent at other times.
func (t *Tally) Add(o Tally) {
	t.Sent, t.OK, t.Left, t.Meant = t.Sent+o.Sent, t.OK+o.OK, t.Left+o.Left, t.Meant+o.Meant
	t.Excused, t.Waited, t.Span = t.Excused+o.Excused, t.Waited+o.Waited, t.Span+o.Span
	if t.First == "" {
		t.First = o.First
	}
	if t.Errors == nil {
		t.Errors, t.ByHost = map[string]int{}, map[string]int{}
	}
	for kind, n := range o.Errors {
		t.Errors[kind] += n
	}
	for host, n := range o.ByHost {
		t.ByHost[host] += n
	}
}

// Rate returns the requests sent per second.
func (t *Tally) Rate() float64 { return float64(t.Sent) / max(t.Span.Seconds(), 1e-9) }

// Traffic sends requests at a steady rate, whether or not earlier ones have ended, until it is stopped.
type Traffic struct {
	Meant string // a kind of error, as in loadgen.Sample, that is no failure; set before Start
	Most  int    // requests under way at most, 0 for any number: above it the sender waits; set before Start
	// Excuse, if set, reports whether a request that has just failed had a reason to. sent is when it was sent. It is
	// set before Start, and called by several goroutines.
	Excuse func(s *loadgen.Sample, sent time.Time) bool

	client *loadgen.Client
	make   func(r *rand.Rand, id int) loadgen.Request
	rate   float64
	seed   uint64
	wg     sync.WaitGroup // requests under way
	room   chan struct{}  // one value for each request under way, nil if there may be any number
	sender sync.WaitGroup

	mu    sync.Mutex
	stop  context.CancelFunc // of the sender; nil while paused
	next  int                // id of the next request
	tally Tally
}

// NewTraffic returns traffic of rate requests a second that has not started yet. make returns each request; its random
// numbers come from seed.
func NewTraffic(c *loadgen.Client, rate float64, seed uint64,
	make func(r *rand.Rand, id int) loadgen.Request,
) *Traffic {
	return &Traffic{client: c, make: make, rate: rate, seed: seed, tally: newTally()}
}

func newTally() Tally { return Tally{Errors: map[string]int{}, ByHost: map[string]int{}} }

// Short is a chat completion of one token, for NewTraffic. Every eighth travels in pieces, so that a plugin which reads
// bodies has to hold it.
func Short(r *rand.Rand, id int) loadgen.Request { return Answer(r, id, 1) }

// Answer is the same with an answer of so many tokens.
func Answer(r *rand.Rand, id, tokens int) loadgen.Request {
	q := loadgen.Request{ID: id, MaxTokens: tokens, Stream: r.IntN(2) == 0}
	words := 8
	if r.IntN(8) == 0 {
		words = 256
		q.Upload = loadgen.Upload{Chunked: r.IntN(2) == 0, Pieces: 4, Pause: 30 * time.Millisecond}
	}
	body, err := loadgen.ChatBody("sim", loadgen.Text(r, words), q.MaxTokens, q.Stream)
	if err != nil {
		panic(err) // strings and numbers always marshal
	}
	q.Body = body
	return q
}

// Start sends until Pause or until ctx ends. It does nothing while the traffic runs.
func (t *Traffic) Start(ctx context.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stop != nil {
		return
	}
	if t.Most > 0 && t.room == nil {
		t.room = make(chan struct{}, t.Most)
	}
	run, stop := context.WithCancel(ctx)
	t.stop = stop
	t.sender.Add(1)
	go func() {
		defer t.sender.Done()
		t.send(ctx, run)
	}()
}

// send keeps to the rate on average: when the machine has held it up, the requests that are due go out at once.
func (t *Traffic) send(requests, run context.Context) {
	start := time.Now()
	defer func() {
		t.mu.Lock()
		t.tally.Span += time.Since(start)
		t.mu.Unlock()
	}()
	t.mu.Lock()
	r := rand.New(rand.NewPCG(t.seed, uint64(t.next)))
	t.mu.Unlock()
	for n := 0; ; n++ {
		due := start.Add(time.Duration(float64(n) / t.rate * float64(time.Second)))
		if wait.For(run, time.Until(due)) != nil {
			return
		}
		if t.room != nil {
			t.room <- struct{}{}
		}
		t.one(requests, r, func() {
			if t.room != nil {
				<-t.room
			}
		})
	}
}

// one sends a request; ended is called at its end.
func (t *Traffic) one(ctx context.Context, r *rand.Rand, ended func()) {
	t.mu.Lock()
	q := t.make(r, t.next)
	t.next++
	t.tally.Sent++
	t.mu.Unlock()
	t.wg.Add(1)
	go func() {
		defer t.wg.Done()
		defer ended()
		sent := time.Now()
		t.count(t.client.Do(ctx, &q, sent), sent)
	}()
}

// Burst sends n requests at once, beside those of the rate. Pause waits for the end of these, too.
func (t *Traffic) Burst(ctx context.Context, n int) {
	r := rand.New(rand.NewPCG(t.seed, ^uint64(t.Tally().Sent)))
	for range n {
		t.one(ctx, r, func() {})
	}
}

func (t *Traffic) count(s loadgen.Sample, sent time.Time) {
	excused := t.Excuse != nil && !s.OK() && !s.Left && t.Excuse(&s, sent)
	t.mu.Lock()
	defer t.mu.Unlock()
	if ms := s.Header.Get(waitHeader); ms != "" && ms != "0" {
		t.tally.Waited++
	}
	if s.Endpoint != "" {
		t.tally.ByHost[s.Endpoint]++
	}
	switch {
	case s.Left:
		t.tally.Left++
	case s.OK():
		t.tally.OK++
	case t.Meant != "" && s.Error == t.Meant:
		t.tally.Meant++
	case excused:
		t.tally.Excused++
	default:
		t.tally.Errors[s.Error]++
		if t.tally.First == "" {
			t.tally.First = fmt.Sprintf("request %d at server %q: %s: %.200s", s.ID, s.Endpoint, s.Error, s.Detail)
		}
	}
}

// Pause stops sending and waits for the end of the requests that are under way. Start continues.
func (t *Traffic) Pause() {
	t.mu.Lock()
	stop := t.stop
	t.stop = nil
	t.mu.Unlock()
	if stop != nil {
		stop()
	}
	t.sender.Wait()
	t.wg.Wait()
}

// Tally returns the counts so far.
func (t *Traffic) Tally() Tally {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.tally
	c.Errors, c.ByHost = maps.Clone(c.Errors), maps.Clone(c.ByHost)
	return c
}
