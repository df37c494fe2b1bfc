// Package scripted plays the scripts of package traffic as clients of a gateway: conversations and trees whose prompts
// contain the answers that came before.
package scripted

import (
	"context"
	"fmt"
	"math"
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
	SessionHeader  = "X-Session"        // which conversation it is, for those who balance by that
	EndpointHeader = "X-Bench-Endpoint" // where the client wants to go, for a gateway that obeys
)

// Player plays scripts at one address and collects the outcomes of the requests.
type Player struct {
	Client *loadgen.Client
	Plain  bool                                            // the completions API
	Choose func(q *Question) (endpoint string, u UnderWay) // nil = the gateway chooses
	Send   Sender                                          // sends the turns in place of the player; nil = it does
	Warm   int                                             // first turns of each script that are not in the samples
	Begins []time.Duration                                 // when Play began each script, known when it has returned
	Until  time.Duration                                   // of Play: from then on nothing is sent; 0 = no limit

	open  bool // scripts begin when they are due
	start time.Time

	mu      sync.Mutex
	samples []loadgen.Sample
}

// Sender sends a turn whose conversation so far, with what the turn adds, is the prompt, and returns what became of it,
// with the text of the answer. Times in it count from the start.
type Sender func(ctx context.Context, s *traffic.Script, t *traffic.Turn, prompt []loadgen.Message,
	start time.Time) loadgen.Sample

// Question is a request as a chooser in the client sees it.
type Question struct {
	Messages []loadgen.Message // one, of the user, in the completions API
	Body     []byte
	Answer   int // tokens of the answer, exactly
}

// UnderWay is called by the chooser of a request's server, as long as the request is under way.
type UnderWay struct {
	First func() // the first of the answer has come; nil = does not matter
	Done  func() // the request has ended, with or without an answer
}

// apart is the time between the beginnings of two users of a closed loop: if all came at the same moment, with caches
// that are all empty, the high percentiles would show only these first requests.
const apart = 20 * time.Millisecond

// Play plays all scripts to their end, users of them at once, or each when it is due if users is 0.
func (p *Player) Play(ctx context.Context, scripts []traffic.Script, users int) []loadgen.Sample {
	p.start, p.open, p.Begins = time.Now(), users == 0, make([]time.Duration, len(scripts))
	var wg sync.WaitGroup
	if p.open {
		for i := range scripts {
			_ = wait.For(ctx, time.Until(p.start.Add(scripts[i].Due))) // what follows ends with ctx
			wg.Add(1)
			go func() {
				defer wg.Done()
				p.begin(ctx, scripts, i)
			}()
		}
		wg.Wait()
		return p.samples
	}
	crowd(ctx, users, len(scripts), func(i int) { p.begin(ctx, scripts, i) })
	return p.samples
}

// begin plays script i to its end.
func (p *Player) begin(ctx context.Context, scripts []traffic.Script, i int) {
	if p.Begins[i] = time.Since(p.start); p.over() {
		return
	}
	p.script(ctx, &scripts[i])
}

// over reports whether nothing more is sent.
func (p *Player) over() bool { return p.Until > 0 && time.Since(p.start) >= p.Until }

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

// InTurns plays conversations of equally many turns: the first turn of all of them, then the second of all, and so on,
// users of them at once. Users do not think; the others take long enough.
func (p *Player) InTurns(ctx context.Context, scripts []traffic.Script, users int) []loadgen.Sample {
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
func (p *Player) script(ctx context.Context, s *traffic.Script) {
	var wg sync.WaitGroup
	var from func(i int, history []loadgen.Message)
	from = func(i int, history []loadgen.Message) {
		defer wg.Done()
		t := &s.Turns[i]
		_ = wait.For(ctx, t.Think) // what follows ends with ctx
		if p.over() {
			return
		}
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
func (p *Player) send(ctx context.Context, s *traffic.Script, t *traffic.Turn, prompt []loadgen.Message) (
	answer string, ok bool,
) {
	if p.Send != nil {
		return p.take(t, p.Send(ctx, s, t, prompt, p.start))
	}
	question := p.Question(s, t, prompt)
	q := loadgen.Request{
		Body: question.Body, Stream: true, MaxTokens: t.Answer, KeepText: true,
		Header: http.Header{SessionHeader: {s.Session}}, Due: time.Since(p.start),
	}
	if p.open && t.Parent < 0 {
		q.Due = s.Due // a client that is late must not hide it
	}
	if p.Choose != nil {
		endpoint, u := p.Choose(&question)
		q.First = u.First
		defer u.Done()
		q.Header[EndpointHeader] = []string{endpoint}
	}
	return p.take(t, p.Client.Do(ctx, &q, p.start))
}

// take keeps the outcome of a turn, and returns its answer.
func (p *Player) take(t *traffic.Turn, sample loadgen.Sample) (answer string, ok bool) {
	answer, sample.Text = sample.Text, ""
	if t.Parent+1 >= p.Warm || !sample.OK() { // of a conversation: its turn parent+1
		p.add(sample)
	}
	return answer, sample.OK()
}

// Question renders the request of a turn whose conversation so far, with what the turn adds, is the prompt.
func (p *Player) Question(s *traffic.Script, t *traffic.Turn, prompt []loadgen.Message) Question {
	q := Question{Messages: prompt, Answer: t.Answer}
	var err error
	if p.Plain {
		var text strings.Builder
		for _, m := range prompt {
			text.WriteString(m.Content)
		}
		q.Messages = []loadgen.Message{traffic.User(text.String())}
		q.Body, err = loadgen.CompletionBody("sim", text.String(), t.Answer, true)
	} else {
		q.Body, err = loadgen.AgentBody("sim", s.Tools, prompt, t.Answer, true)
	}
	if err != nil {
		panic(err) // texts always marshal
	}
	return q
}

// abandon counts a turn, and all that follow from it, that cannot be sent because the previous one failed.
func (p *Player) abandon(s *traffic.Script, i int) {
	p.add(loadgen.Sample{Error: loadgen.ErrNotSent, Due: time.Since(p.start)})
	for _, child := range s.Children(i) {
		p.abandon(s, child)
	}
}

func (p *Player) add(s loadgen.Sample) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.samples = append(p.samples, s)
}

// warmUpTimeout bounds the time until requests are answered: a router has to check the health of its servers first.
const warmUpTimeout = time.Minute

// WarmUp waits until n requests in a row have been answered, so that connections are open and all processes have
// started.
func WarmUp(ctx context.Context, client *loadgen.Client, plain bool, n int) error {
	body, err := loadgen.ChatBody("warm-up", "hello", 1, true)
	if plain {
		body, err = loadgen.CompletionBody("warm-up", "hello", 1, true)
	}
	if err != nil {
		return err
	}
	q := loadgen.Request{Body: body, Stream: true, MaxTokens: 1, Header: http.Header{SessionHeader: {"warm-up"}}}
	deadline := time.Now().Add(warmUpTimeout)
	for done := 0; done < n; {
		s := client.Do(ctx, &q, time.Now())
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case s.OK():
			done++
		case time.Now().After(deadline):
			return fmt.Errorf("scripted: no answer: %s %s", s.Error, s.Detail)
		default:
			done = 0
			time.Sleep(50 * time.Millisecond)
		}
	}
	return nil
}

// Window is the part of a run that is measured, from its start.
type Window struct{ From, To time.Duration }

func (w Window) has(t time.Duration) bool { return t >= w.From && t < w.To }

// Figures are what clients saw of a window.
type Figures struct {
	Summary loadgen.Summary // of the requests that were sent in the window
	Failed  int             // requests that failed in the whole run
	Rate    float64         // tokens of answers that ended in the window, a second
	Cached  float64         // share of the prompt tokens that the servers had cached, of what was sent in the window
}

// Figures reduces the samples of a run.
func (w Window) Figures(samples []loadgen.Sample) Figures {
	var f Figures
	tokens, prompt, cached := 0, 0, 0
	var sent []loadgen.Sample
	for i := range samples {
		s := &samples[i]
		if !s.OK() {
			f.Failed++
		}
		if w.has(s.Due + s.Total) {
			tokens += s.Tokens
		}
		if w.has(s.Due) {
			sent = append(sent, *s)
			prompt += s.Usage.Prompt
			cached += s.Usage.Cached
		}
	}
	f.Summary = loadgen.Summarize(sent)
	f.Rate = float64(tokens) / max(time.Millisecond, w.To-w.From).Seconds()
	f.Cached = float64(cached) / float64(max(1, prompt))
	return f
}

// Uneven returns the requests of the busiest of n servers over the mean of all.
func (f *Figures) Uneven(n int) float64 {
	most := 0
	for _, count := range f.Summary.Endpoints {
		most = max(most, count)
	}
	return float64(most*n) / float64(max(1, f.Summary.OK))
}

// Prediction is how well Warmgate knew what the servers have cached, over the requests whose answers have its match
// header.
type Prediction struct {
	Requests  int     `json:"requests"`
	Predicted float64 `json:"predicted"` // share of all prompt tokens
	Reported  float64 `json:"reported"`  // the same by the servers
	Off       float64 `json:"off"`       // mean absolute difference, weighted by prompt tokens
}

// PredictionOf compares what was expected of the requests with what the servers report.
func PredictionOf(samples []loadgen.Sample) Prediction {
	var p Prediction
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
		off += math.Abs(match*tokens - cached)
	}
	if prompt > 0 {
		p.Predicted, p.Reported, p.Off = predicted/prompt, reported/prompt, off/prompt
	}
	return p
}
