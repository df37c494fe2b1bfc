package overload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/wait"
	"github.com/warmgate/warmgate/internal/vllmsim"
)

// servers and slots of each: small, so that this machine can send many times what they serve, and receive all refusals.
const servers, slots = 3, 8

// Slots is how many requests all servers run at once.
const Slots = servers * slots

// tuning is the speed of the servers.
var tuning = vllmsim.DefaultTuning()

// fleet returns the servers. Like vLLM by default they take whatever they are sent: what they cannot run waits.
func fleet() []vllmsim.Config {
	c := vllmsim.DefaultConfig()
	c.MaxNumSeqs, c.MaxQueued, c.Tuning = slots, -1, tuning
	return slices.Repeat([]vllmsim.Config{c}, servers)
}

// class is a kind of request.
type class struct {
	name     string
	share    float64       // of the arrivals
	deadline time.Duration // for the whole answer, from the first time that the client sends; its retries included
}

// critical is the highest class. At ten times the capacity of all it still needs less than half of it.
const critical = "critical"

// classes from the highest to the lowest.
var classes = []class{
	{critical, 0.043, 2700 * time.Millisecond},
	{"interactive", 0.52, 3100 * time.Millisecond},
	{"batch", 0.437, 4300 * time.Millisecond},
}

// rank returns the place of a class, 0 for the highest.
func rank(c *class) int {
	return slices.IndexFunc(classes, func(x class) bool { return x.name == c.name })
}

// shipped returns which of the two classes of the shipped configuration it is.
func (c *class) shipped() string {
	if c.name == critical {
		return "interactive"
	}
	return c.name
}

// workload is chat traffic whose answers vary: in full batches half of them take less than 0.4 s, the longest 1.6 s.
func workload(seed uint64) loadgen.Workload {
	return loadgen.Workload{
		Seed:   seed,
		Prompt: loadgen.LogNormal{Median: 90, Sigma: 0.8, Min: 8, Max: 700},
		Output: loadgen.LogNormal{Median: 27, Sigma: 0.8, Min: 2, Max: 119},
	}
}

// capacity returns the requests a second that the servers answer with full batches, from their settings.
func capacity() (float64, error) {
	typical, err := compare.Typical(workload(0))
	if err != nil {
		return 0, err
	}
	return compare.Capacity(fleet(), typical), nil
}

// Call is a request of a user, however often it is sent.
type Call struct {
	loadgen.Request
	class *class
	id    string // the same in all attempts, behind that of the run
	seed  uint64 // of how long its client waits before attempts
}

// Calls returns the traffic at a load, as multiple of what the servers can answer. The same seed gives the same.
func Calls(seed uint64, load float64, servers []vllmsim.Config, span time.Duration, stream bool) ([]Call, error) {
	w := workload(seed)
	w.Stream = stream
	reqs, err := compare.AtLoad(w, servers, load, span)
	if err != nil {
		return nil, err
	}
	r := rand.New(rand.NewPCG(seed, 0x6f7665726c6f6164))
	out := make([]Call, len(reqs))
	for i := range out {
		out[i] = Call{Request: reqs[i], class: drawClass(r.Float64()), seed: r.Uint64()}
		a, b := r.Uint64(), r.Uint64()
		out[i].id = fmt.Sprintf("-%04x-4%03x-9%03x-%012x", a>>16&0xffff, a&0xfff, b>>52, b&0xffffffffffff)
	}
	return out, nil
}

// drawClass returns a class for a number from 0 to 1.
func drawClass(at float64) *class {
	for i := range classes {
		if at -= classes[i].share; at < 0 {
			return &classes[i]
		}
	}
	return &classes[len(classes)-1]
}

// describeClasses returns them in words.
func describeClasses() string {
	var parts []string
	for _, c := range classes {
		parts = append(parts, fmt.Sprintf("%s %.1f %% of the arrivals, deadline %v", c.name, 100*c.share, c.deadline))
	}
	return strings.Join(parts, "; ")
}

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
func (p *player) play(ctx context.Context, calls []Call) []outcome {
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
func (p *player) call(ctx context.Context, c *Call) outcome {
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
func (p *player) attempt(ctx context.Context, c *Call, end time.Time) loadgen.Sample {
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
