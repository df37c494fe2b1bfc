package overload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/wait"
)

// Headers of requests and answers.
const (
	classHeader    = "X-Class"
	deadlineHeader = "X-Deadline-Ms"                  // what is left of the deadline
	idHeader       = "X-Request-Id"                   // by which a retry is known
	timeoutHeader  = "X-Envoy-Upstream-Rq-Timeout-Ms" // Envoy's own, in place of the route's timeout
	waitHeader     = "X-Warmgate-Wait-Ms"             // how long Warmgate had the request wait
	retryHeader    = "Retry-After"
	priorityHeader = "X-Priority"       // takes the route with Envoy's priority HIGH
	shippedClass   = "X-Warmgate-Class" // as the shipped configuration has it
	shippedTenant  = "X-Warmgate-Tenant"
)

const (
	maxRetries = 2                      // of a call, as OpenAI's clients have by default
	backoff    = 500 * time.Millisecond // before the first of them, without Retry-After; twice that before the second
	grace      = 100 * time.Millisecond // clients leave so long after their deadline
)

// outcome is what became of a call.
type outcome struct {
	class    *class
	due      time.Duration
	late     time.Duration // from due to its first attempt
	good     bool          // answered within its deadline
	end      time.Duration // of its last attempt
	takes    time.Duration // for its answer in a full batch
	attempts []loadgen.Sample
}

// player sends calls.
type player struct {
	client   *loadgen.Client
	timeouts bool // attempts carry the timeout header
	high     int  // number of classes, from the highest, that carry the priority header
	start    time.Time
	run      string // begins the ids of its calls: those of another run with the same calls are no retries
}

// play sends the calls when they are due and returns what became of each, in their order.
func (p *player) play(ctx context.Context, calls []call) []outcome {
	out := make([]outcome, len(calls))
	var wg sync.WaitGroup
	p.start, p.run = time.Now(), fmt.Sprintf("%08x", rand.Uint32())
	for i := range calls {
		_ = wait.For(ctx, time.Until(p.start.Add(calls[i].Due))) // what follows ends with ctx
		wg.Add(1)
		go func() {
			defer wg.Done()
			out[i] = p.call(ctx, &calls[i])
		}()
	}
	wg.Wait()
	return out
}

// call sends a call until it is answered, its client has had enough, or an answer would come too late.
func (p *player) call(ctx context.Context, c *call) outcome {
	o := outcome{class: c.class, due: c.Due, takes: c.takes(), late: time.Since(p.start) - c.Due}
	end := p.start.Add(c.Due + c.class.deadline)
	r := rand.New(rand.NewPCG(c.seed, 0))
	for {
		s := p.attempt(ctx, c, end)
		o.attempts, o.end = append(o.attempts, s), time.Since(p.start)
		if s.OK() {
			o.good = o.end <= c.Due+c.class.deadline
			return o
		}
		pause := pauseAfter(&s, len(o.attempts), r)
		if !retriable(&s) || len(o.attempts) > maxRetries || time.Now().Add(pause).After(end) {
			return o
		}
		if wait.For(ctx, pause) != nil {
			return o
		}
	}
}

// attempt sends a call once.
func (p *player) attempt(ctx context.Context, c *call, end time.Time) loadgen.Sample {
	ctx, cancel := context.WithDeadline(ctx, end.Add(grace))
	defer cancel()
	q := c.Request
	q.Due = time.Since(p.start)
	left := strconv.FormatInt(max(1, time.Until(end).Milliseconds()), 10)
	q.Header = http.Header{
		classHeader: {c.class.name}, deadlineHeader: {left}, idHeader: {p.run + c.id},
		shippedClass: {c.class.shipped()},
	}
	if p.timeouts {
		q.Header[timeoutHeader] = []string{left}
	}
	if rank(c.class) < p.high {
		q.Header[priorityHeader] = []string{"high"}
	}
	s := p.client.Do(ctx, &q, p.start)
	s.Gaps = nil
	return s
}

// retriable reports whether a client tries again after such an answer.
func retriable(s *loadgen.Sample) bool {
	if s.Status == 0 {
		return s.Error != loadgen.ErrTimeout && s.Error != loadgen.ErrCanceled
	}
	return s.Status == http.StatusTooManyRequests || s.Status >= 500
}

// pauseAfter returns how long a client waits after the n-th attempt: what the answer says, and up to a tenth more, or
// twice as long each time, give or take a quarter.
func pauseAfter(s *loadgen.Sample, n int, r *rand.Rand) time.Duration {
	jitter := r.Float64()
	if seconds, err := strconv.Atoi(s.Header.Get(retryHeader)); err == nil && seconds > 0 {
		return time.Duration(float64(seconds) * float64(time.Second) * (1 + jitter/10))
	}
	return time.Duration(float64(backoff<<(n-1)) * (0.75 + jitter/2))
}

// refused reports whether an attempt was answered that there is no capacity, and whether that was after a wait.
func refused(s *loadgen.Sample) (yes, waited bool) {
	if s.Status != http.StatusTooManyRequests && s.Status != http.StatusServiceUnavailable {
		return false, false
	}
	ms, err := strconv.Atoi(s.Header.Get(waitHeader))
	return true, err == nil && ms > 0 || strings.Contains(s.Detail, "queue_timeout")
}
