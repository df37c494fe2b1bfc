package main

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/traffic"
	"github.com/warmgate/warmgate/e2e/wait"
)

// Headers that a client sends.
const (
	sessionHeader  = "X-Session"        // which conversation it is, for those who balance by that
	endpointHeader = "X-Bench-Endpoint" // where the client wants to go, for a gateway that obeys
)

// player plays scripts at one address and collects the outcomes of the requests.
type player struct {
	client *loadgen.Client
	plain  bool                                            // the completions API
	choose func(q *question) (endpoint string, u underWay) // nil = the gateway chooses
	open   bool                                            // scripts begin when they are due
	warm   int                                             // first turns of each script that are not in the samples
	start  time.Time

	mu      sync.Mutex
	samples []loadgen.Sample
}

// question is a request as a chooser in the client sees it.
type question struct {
	messages []loadgen.Message // one, of the user, in the completions API
	body     []byte
	answer   int // tokens of the answer, exactly
}

// underWay is called by the chooser of a request's server, as long as the request is under way.
type underWay struct {
	first func() // the first of the answer has come; nil = does not matter
	done  func() // the request has ended, with or without an answer
}

// apart is the time between the beginnings of two users of a closed loop: if all came at the same moment, with caches
// that are all empty, the high percentiles would show only these first requests.
const apart = 20 * time.Millisecond

// play plays all scripts to their end, users of them at once, or each when it is due if users is 0.
func (p *player) play(ctx context.Context, scripts []script, users int) []loadgen.Sample {
	p.start, p.open = time.Now(), users == 0
	var wg sync.WaitGroup
	if p.open {
		for i := range scripts {
			_ = wait.For(ctx, time.Until(p.start.Add(scripts[i].Due))) // what follows ends with ctx
			wg.Add(1)
			go func() {
				defer wg.Done()
				p.script(ctx, &scripts[i])
			}()
		}
		wg.Wait()
		return p.samples
	}
	crowd(ctx, users, len(scripts), func(i int) { p.script(ctx, &scripts[i]) })
	return p.samples
}

// crowd has users do n things, each user one at a time, in order as they are free. It returns when all are done.
func crowd(ctx context.Context, users, n int, do func(i int)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for i := range users {
		wg.Add(1)
		go func() {
			defer wg.Done()
			_ = wait.For(ctx, time.Duration(i)*apart) // what follows ends with ctx
			for k := range next {
				do(k)
			}
		}()
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

// inTurns plays conversations of equally many turns: the first turn of all of them, then the second of all, and so on,
// users of them at once. Users do not think; the others take long enough.
func (p *player) inTurns(ctx context.Context, scripts []script, users int) []loadgen.Sample {
	p.start = time.Now()
	n := len(scripts)
	histories, failed := make([][]loadgen.Message, n), make([]bool, n)
	ended := make([]chan struct{}, n*len(scripts[0].Turns))
	for i := range ended {
		ended[i] = make(chan struct{})
	}
	crowd(ctx, users, len(ended), func(i int) {
		defer close(ended[i])
		k, s := i%n, &scripts[i%n]
		if i >= n {
			<-ended[i-n]
		}
		if failed[k] {
			p.add(loadgen.Sample{Error: loadgen.ErrNotSent, Due: time.Since(p.start)})
			return
		}
		t := &s.Turns[i/n]
		prompt := slices.Concat(histories[k], t.Add)
		answer, ok := p.send(ctx, s, t, prompt)
		histories[k], failed[k] = append(prompt, traffic.Assistant(answer)), !ok
	})
	return p.samples
}

// script plays one script to its end.
func (p *player) script(ctx context.Context, s *script) {
	var wg sync.WaitGroup
	var from func(i int, history []loadgen.Message)
	from = func(i int, history []loadgen.Message) {
		defer wg.Done()
		t := &s.Turns[i]
		_ = wait.For(ctx, t.Think) // what follows ends with ctx
		prompt := slices.Concat(history, t.Add)
		answer, ok := p.send(ctx, s, t, prompt)
		prompt = append(prompt, traffic.Assistant(answer))
		for _, child := range s.Children(i) {
			if !ok {
				p.abandon(s, child)
				continue
			}
			wg.Add(1)
			go from(child, prompt)
		}
	}
	wg.Add(1)
	from(0, nil)
	wg.Wait()
}

// send sends one request and returns its answer; ok is false when it did not come whole.
func (p *player) send(ctx context.Context, s *script, t *turn, prompt []loadgen.Message) (answer string, ok bool) {
	question := p.question(s, t, prompt)
	q := loadgen.Request{
		Body: question.body, Stream: true, MaxTokens: t.Answer, KeepText: true,
		Header: http.Header{sessionHeader: {s.Session}}, Due: time.Since(p.start),
	}
	if p.open && t.Parent < 0 {
		q.Due = s.Due // a client that is late must not hide it
	}
	if p.choose != nil {
		endpoint, u := p.choose(&question)
		q.First = u.first
		defer u.done()
		q.Header[endpointHeader] = []string{endpoint}
	}
	sample := p.client.Do(ctx, &q, p.start)
	answer, sample.Text = sample.Text, ""
	if t.Parent+1 >= p.warm || !sample.OK() { // of a conversation: its turn parent+1
		p.add(sample)
	}
	return answer, sample.OK()
}

// question renders a request.
func (p *player) question(s *script, t *turn, prompt []loadgen.Message) question {
	q := question{messages: prompt, answer: t.Answer}
	var err error
	if p.plain {
		var text strings.Builder
		for _, m := range prompt {
			text.WriteString(m.Content)
		}
		q.messages = []loadgen.Message{traffic.User(text.String())}
		q.body, err = loadgen.CompletionBody("sim", text.String(), t.Answer, true)
	} else {
		q.body, err = loadgen.AgentBody("sim", s.Tools, prompt, t.Answer, true)
	}
	if err != nil {
		panic(err) // texts always marshal
	}
	return q
}

// abandon counts a turn, and all that follow from it, that cannot be sent because the previous one failed.
func (p *player) abandon(s *script, i int) {
	p.add(loadgen.Sample{Error: loadgen.ErrNotSent, Due: time.Since(p.start)})
	for _, child := range s.Children(i) {
		p.abandon(s, child)
	}
}

func (p *player) add(s loadgen.Sample) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.samples = append(p.samples, s)
}

// prediction is how well Warmgate knew what the servers have cached, over the requests whose answers have its match
// header.
type prediction struct {
	Requests  int     `json:"requests"`
	Predicted float64 `json:"predicted"` // share of all prompt tokens
	Reported  float64 `json:"reported"`  // the same by the servers
	Off       float64 `json:"off"`       // mean absolute difference, weighted by prompt tokens
}

// result is what one contender did with one workload.
type result struct {
	summary    loadgen.Summary
	cached     float64 // share of the prompt tokens that the servers had cached
	uneven     float64 // requests of the busiest server over the mean of all
	prediction prediction
}

// resultOf reduces the samples of a play on n servers.
func resultOf(samples []loadgen.Sample, n int) result {
	r := result{summary: loadgen.Summarize(samples)}
	prompt, cached, most := 0, 0, 0
	for i := range samples {
		prompt += samples[i].Usage.Prompt
		cached += samples[i].Usage.Cached
	}
	for _, k := range r.summary.Endpoints {
		most = max(most, k)
	}
	r.cached = share(cached, prompt)
	r.uneven = share(most*n, r.summary.OK)
	r.prediction = predictionOf(samples)
	return r
}

func predictionOf(samples []loadgen.Sample) prediction {
	var p prediction
	var prompt, predicted, reported, off float64
	for i := range samples {
		s := &samples[i]
		match, err := strconv.ParseFloat(s.Header.Get(compare.MatchHeader), 64)
		if err != nil || !s.OK() {
			continue
		}
		p.Requests++
		tokens, cached := float64(s.Usage.Prompt), float64(s.Usage.Cached)
		prompt += tokens
		predicted += match * tokens
		reported += cached
		off += max(match*tokens-cached, cached-match*tokens)
	}
	if prompt > 0 {
		p.Predicted, p.Reported, p.Off = predicted/prompt, reported/prompt, off/prompt
	}
	return p
}

// share returns part/whole, or 0 if there is nothing.
func share(part, whole int) float64 { return float64(part) / float64(max(1, whole)) }
