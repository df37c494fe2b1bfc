package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/lab"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/wait"
)

// The requests of the comparison, in tokens.
var promptSizes = []int{500, 1000, 2000}

const (
	repeats      = 5   // measurements of each time; the least counts, since a busy machine only adds
	maxTries     = 12  // requests until a measurement has the cached share it is about
	decodeTokens = 64  // answer length when decoding is measured
	bursts       = 2   // times that queueing is measured
	burst        = 16  // requests at once when it is
	burstPrompt  = 200 // their prompts
	burstAnswer  = 32  // and answers
)

// target is where requests go, and the servers behind it.
type target struct {
	url     string
	servers servers
	// prompts names a set of prompts. Another set shares nothing with it, so that nothing of it is cached.
	prompts uint64
}

// report is what a kind of server did.
type report struct {
	cold, warm  map[int]float64 // prompt tokens → first token, ms
	half        float64         // first token of the longest prompt with its first half cached, ms
	cachedWarm  float64         // share of the longest prompt that was cached when all of it had been sent before
	cachedHalf  float64         // the same when the first half had been
	decodeAlone float64         // time between tokens of a lone answer, ms
	decodeFull  float64         // the same with all slots busy
	queue       queueReport
	clients     counters // what the clients' usage adds up to
	counted     counters // what the servers counted
}

// queueReport is what happened when more requests came at once than there are slots.
type queueReport struct {
	running, waiting []int          // the most each server had
	firstMS, lastMS  float64        // median first token of the first and the last slots-full of requests
	totalMS          float64        // until the last answer was complete
	perEndpoint      map[string]int // requests by the endpoint the gateway named
}

// prober sends requests and adds up their usage.
type prober struct {
	target
	model  string
	client *loadgen.Client
	rand   *rand.Rand

	mu    sync.Mutex
	usage counters
}

// newProber makes a prober. It opens a connection per request: llama.cpp's server
// closes idle ones when it runs short of threads, which looks like a failure to a client about to use one.
func newProber(t target) *prober {
	return &prober{
		target: t,
		model:  model,
		client: loadgen.NewClient(loadgen.Options{
			URL:    t.url + "/v1/completions",
			Header: http.Header{"Connection": {"close"}},

			KeepHeaders: []string{endpointHeader},
		}),
		rand: rand.New(rand.NewPCG(t.prompts, 0)),
	}
}

// tokens is a prompt of random tokens, so that it shares no prefix with any other.
func (p *prober) tokens(n int) []int {
	ids := make([]int, n)
	for i := range ids {
		ids[i] = 3 + p.rand.IntN(800) // the first three are special, the vocabulary has 819
	}
	return ids
}

// words is text of n words that the models know as tokens.
func (p *prober) words(n int) string {
	const first, middle, last = "bdklmnrst", "aeiou", "bdklmnrstpgvfzhj"
	var b strings.Builder
	for range n {
		b.Write([]byte{
			' ', first[p.rand.IntN(len(first))], middle[p.rand.IntN(len(middle))],
			last[p.rand.IntN(len(last))],
		})
	}
	return b.String()
}

// prompts are n prompts of random tokens.
func (p *prober) prompts(n, tokens int) [][]int {
	list := make([][]int, n)
	for i := range list {
		list[i] = p.tokens(tokens)
	}
	return list
}

// send makes one streamed request. Whatever fails, fails the comparison.
func (p *prober) send(ctx context.Context, prompt []int, answer int) loadgen.Sample {
	body := fmt.Appendf(nil, `{"model":%q,"stream":true,"stream_options":{"include_usage":true},"ignore_eos":true,"max_tokens":%d,"prompt":[`, p.model, answer)
	for i, id := range prompt {
		if i > 0 {
			body = append(body, ',')
		}
		body = fmt.Appendf(body, "%d", id)
	}
	s := p.client.Do(ctx, &loadgen.Request{Body: append(body, "]}"...), Stream: true, MaxTokens: answer}, time.Now())
	lab.FailIf(!s.OK() || s.Usage.Prompt != len(prompt) || s.Usage.Completion != answer,
		"%s: %d tokens, answer of %d: status %d %s %s, usage %+v", p.url, len(prompt), answer, s.Status, s.Error,
		s.Detail, s.Usage)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.usage.computed += float64(s.Usage.Prompt - s.Usage.Cached)
	p.usage.cached += float64(s.Usage.Cached)
	p.usage.generated += float64(s.Usage.Completion)
	return s
}

// inTurn sends n requests, so many at once, and returns their outcomes.
func (p *prober) inTurn(ctx context.Context, n, atOnce, prompt, answer int) []loadgen.Sample {
	samples, prompts := make([]loadgen.Sample, n), p.prompts(n, prompt)
	lab.Check(bench.SideBySide(ctx, atOnce, n, func(ctx context.Context, _, i int) error {
		return lab.Try(func() { samples[i] = p.send(ctx, prompts[i], answer) })
	}))
	return samples
}

// measure does the whole comparison's requests against one target.
func measure(ctx context.Context, t target) report {
	p := newProber(t)
	defer p.client.Close()
	r := report{cold: map[int]float64{}, warm: map[int]float64{}}
	before := p.sum(ctx)
	p.firstTokens(ctx, &r)
	p.halfCached(ctx, &r)
	p.decode(ctx, &r)
	// The faster of several bursts counts.
	for i := range bursts {
		if q := p.burst(ctx); i == 0 || q.totalMS < r.queue.totalMS {
			r.queue = q
		}
	}
	r.clients, r.counted = p.usage, p.sum(ctx).minus(before)
	return r
}

// sum adds up the counters of all servers.
func (p *prober) sum(ctx context.Context) (sum counters) {
	for _, s := range p.servers {
		sum = sum.minus(counters{}.minus(s.scrape(ctx)))
	}
	return sum
}

// firstTokens measures time to first token with nothing and with all of the prompt cached.
func (p *prober) firstTokens(ctx context.Context, r *report) {
	for _, size := range promptSizes {
		var cold, warm []float64
		for range repeats {
			prompt := p.tokens(size)
			same := func() []int { return prompt }
			first, _ := p.firstToken(ctx, same, 0, .05)
			again, cached := p.firstToken(ctx, same, .9, 1)
			cold, warm, r.cachedWarm = append(cold, first), append(warm, again), cached
		}
		r.cold[size], r.warm[size] = slices.Min(cold), slices.Min(warm)
	}
}

// halfCached measures time to first token of prompts whose first half has been sent before.
func (p *prober) halfCached(ctx context.Context, r *report) {
	size := promptSizes[len(promptSizes)-1]
	var half []float64
	for range repeats {
		prefix := p.tokens(size / 2)
		p.send(ctx, prefix, 1)
		extend := func() []int { return append(slices.Clone(prefix), p.tokens(size/2)...) }
		ms, cached := p.firstToken(ctx, extend, .4, .6)
		half, r.cachedHalf = append(half, ms), cached
	}
	r.half = slices.Min(half)
}

// firstToken sends prompts until one had a cached share between low and high; behind a gateway the first ones may reach
// a server that has not seen the prefix yet. It returns the time to first token in ms and the share.
func (p *prober) firstToken(ctx context.Context, prompt func() []int, low, high float64) (ms, cached float64) {
	for range maxTries {
		s := p.send(ctx, prompt(), 2)
		if cached = float64(s.Usage.Cached) / float64(s.Usage.Prompt); cached >= low && cached <= high {
			return bench.MS(s.TTFT), cached
		}
	}
	lab.FailIf(true, "%s: in %d requests none had between %.0f%% and %.0f%% of its prompt cached; the last had %.0f%%",
		p.url, maxTries, 100*low, 100*high, 100*cached)
	return 0, 0
}

// decode measures the time between tokens of a lone answer and with every slot busy.
func (p *prober) decode(ctx context.Context, r *report) {
	for _, c := range []struct {
		answers int
		into    *float64
	}{{1, &r.decodeAlone}, {slots * len(p.servers), &r.decodeFull}} {
		var times []float64
		for range repeats {
			times = append(times, betweenTokens(p.inTurn(ctx, c.answers, c.answers, 16, decodeTokens)))
		}
		*c.into = slices.Min(times)
	}
}

// betweenTokens is the mean gap between tokens over all samples, ms. Not the median: a client that wakes up late reads
// several tokens at once.
func betweenTokens(samples []loadgen.Sample) float64 {
	sum, n := 0., 0
	for _, s := range samples {
		for _, g := range s.Gaps {
			sum += bench.MS(g)
			n++
		}
	}
	return sum / float64(max(1, n))
}

// burst sends more requests at once than there are slots and watches the servers.
func (p *prober) burst(ctx context.Context) (q queueReport) {
	watch := watchQueues(ctx, p.servers)
	began := time.Now()
	var samples []loadgen.Sample
	lab.Each(func() {
		samples = p.inTurn(ctx, burst, burst, burstPrompt, burstAnswer)
		q.totalMS = bench.MS(time.Since(began))
	}, func() { q.running, q.waiting = watch() })
	q.perEndpoint = map[string]int{}
	var first []float64
	for _, s := range samples {
		first = append(first, bench.MS(s.TTFT))
		q.perEndpoint[s.Header.Get(endpointHeader)]++
	}
	slices.Sort(first)
	wave := slots * len(p.servers)
	q.firstMS, q.lastMS = bench.SpreadOf(first[:wave]).Median, bench.SpreadOf(first[len(first)-wave:]).Median
	return q
}

// watchQueues follows how many requests each server runs and keeps waiting, until the function it returns is called;
// that gives the most of each.
func watchQueues(ctx context.Context, list servers) func() (running, waiting []int) {
	running, waiting := make([]int, len(list)), make([]int, len(list))
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- wait.All(len(list), func(i int) (err error) {
			for ctx.Err() == nil && err == nil {
				err = lab.Try(func() {
					c := list[i].scrape(ctx)
					running[i], waiting[i] = max(running[i], int(c.running)), max(waiting[i], int(c.waiting))
				})
				time.Sleep(5 * time.Millisecond)
			}
			if ctx.Err() != nil {
				return nil
			}
			return err
		})
	}()
	return func() ([]int, []int) {
		cancel()
		lab.Check(<-ended)
		return running, waiting
	}
}
