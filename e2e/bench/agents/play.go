package agents

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/bench/router"
	"github.com/warmgate/warmgate/e2e/bench/scripted"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/traffic"
)

// call is what a request is, where it matters whether the server knows what it is about.
type call uint8

const (
	ordinary  call = iota
	toAdapter      // for the model that three of the servers have
	followUp       // of an answer that one server keeps
	count          // of tokens, before a turn
	callCount
)

// tally counts requests of a kind, and those of them that were answered 404.
type tally struct{ sent, notFound int }

// sender sends turns as the clients of the sessions do.
type sender struct {
	client    *loadgen.Client
	work      *workload
	chatsOnly bool
	pen       pen

	mu      sync.Mutex
	answers map[string]string // by session: id of the latest answer that a server keeps
	calls   [callCount]tally
}

func newSender(client *loadgen.Client, w *workload, chatsOnly bool) *sender {
	s := &sender{client: client, work: w, chatsOnly: chatsOnly, answers: map[string]string{}}
	s.pen.previous = func(session string) string {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.answers[session]
	}
	return s
}

// send is a [scripted.Sender]. Before a turn the client has its tokens counted, unless the gateway takes only chats.
// The id of the sample tells session and turn, see [placeID].
func (s *sender) send(ctx context.Context, script *traffic.Script, t *traffic.Turn, prompt []loadgen.Message,
	start time.Time,
) loadgen.Sample {
	session, turn := s.work.sessions[script.Session], t.Parent+1
	q := s.pen.write(script.Session, session, s.chatsOnly, turn, t, prompt)
	if path := countingPath(session.kind); path != "" && !s.chatsOnly {
		c := loadgen.Request{Path: path, Body: q.Body, Header: q.Header, Due: time.Since(start)}
		s.note(count, s.client.Do(ctx, &c, start))
	}
	q.Due = time.Since(start)
	sample := s.client.Do(ctx, &q, start)
	sample.ID = placeID(s.work, script, turn)
	what := ordinary
	switch {
	case session.kind == adapter:
		what = toAdapter
	case session.kind == responses && turn > 0 && !s.chatsOnly:
		what = followUp
	}
	s.note(what, sample)
	if sample.Answer != "" {
		s.mu.Lock()
		s.answers[script.Session] = sample.Answer
		s.mu.Unlock()
	}
	return sample
}

// countingPath returns where a client has tokens counted, "" if it does not.
func countingPath(k kind) string {
	switch k {
	case messages:
		return countPath
	case chat, adapter:
		return tokenizePath
	}
	return ""
}

func (s *sender) note(what call, sample loadgen.Sample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[what].sent++
	if sample.Status == http.StatusNotFound {
		s.calls[what].notFound++
	}
}

// placeID returns the id of a turn's sample: that of the turn before in the session is one less.
func placeID(w *workload, script *traffic.Script, turn int) int {
	at := slices.IndexFunc(w.scripts, func(s traffic.Script) bool { return s.Session == script.Session })
	return at*turns + turn
}

// result is what one contender did.
type result struct {
	scripted.Figures
	prediction scripted.Prediction
	uneven     float64
	stays      float64 // share of the turns behind another at the server of that
	calls      [callCount]tally
	firstToken float64 // ms, see [firstTokenError]; 0 if it was not measured
}

// resultOf reduces the samples of a play.
func resultOf(samples []loadgen.Sample, calls [callCount]tally) result {
	r := result{Figures: scripted.Window{To: 1 << 62}.Figures(samples), calls: calls}
	r.prediction, r.uneven = scripted.PredictionOf(samples), r.Uneven(serverCount)
	at := map[int]string{}
	for i := range samples {
		if samples[i].OK() {
			at[samples[i].ID] = samples[i].Endpoint
		}
	}
	behind, same := 0, 0
	for id, server := range at {
		if before, ok := at[id-1]; ok && id%turns > 0 {
			behind++
			if server == before {
				same++
			}
		}
	}
	r.stays = float64(same) / float64(max(1, behind))
	return r
}

// notFound returns the share of such requests that were answered 404.
func (r *result) notFound(what call) float64 {
	t := r.calls[what]
	return float64(t.notFound) / float64(max(1, t.sent))
}

// play has a contender send the sessions to the servers of the stage, whose caches and counts are emptied before.
func play(ctx context.Context, c *router.Contender, stage *compare.Stage, w *workload, users int) (
	r result, err error,
) {
	err = c.Meet(ctx, stage, "", func(client *loadgen.Client) error {
		s := newSender(client, w, c.Router != nil)
		p := scripted.Player{Client: client, Send: s.send}
		samples := p.Play(ctx, w.scripts, users)
		r = resultOf(samples, s.calls)
		if err := cmp.Or(ctx.Err(), c.Policy.Steered(samples)); err != nil || c.Policy.Plugin == "" {
			return err
		}
		r.firstToken, err = firstTokenError(ctx, client)
		return err
	})
	return r, err
}

// firstTokenError returns for how long after the first token of a stream, or before it, the gateway takes it for come:
// the mean over APIs whose servers send an event without output at once.
func firstTokenError(ctx context.Context, client *loadgen.Client) (ms float64, err error) {
	apis := []kind{messages, responses}
	for _, k := range apis {
		off, err := firstTokenOff(ctx, client, k)
		if err != nil {
			return 0, err
		}
		ms += bench.MS(off) / float64(len(apis))
	}
	return ms, nil
}

// Of a trial of first tokens: the tokens of its long prompt and of its answer, how many long answers keep the other
// servers from being idle, with how many tokens, and the time between short requests.
const (
	longPrompt, longAnswer   = 20_011, 401
	holders, holdTokens      = 2 * (serverCount - 1), 3001
	betweenProbes, headStart = 5 * time.Millisecond, 50 * time.Millisecond
)

// firstTokenOff has one server compute a long prompt, with an event without output at once, while the others write
// answers. Until the first token of the long one, short requests avoid that server; then it has the least to do. The
// first of these that it gets shows when the gateway takes the first token for come.
func firstTokenOff(ctx context.Context, client *loadgen.Client, k kind) (time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	start := time.Now()
	var wg sync.WaitGroup
	defer func() {
		cancel()
		wg.Wait()
	}()
	long := make(chan loadgen.Sample, 1)
	q := lonely(k, longPrompt, longAnswer)
	go func() { long <- client.Do(ctx, &q, start) }()
	time.Sleep(headStart)
	for range holders {
		wg.Add(1)
		go func() {
			defer wg.Done()
			hold := lonely(chat, 23, holdTokens)
			client.Do(ctx, &hold, start)
		}()
	}
	time.Sleep(headStart)
	var probes []loadgen.Sample
	for {
		select {
		case of := <-long:
			if !of.OK() {
				return 0, fmt.Errorf("a long prompt: %s %s", of.Error, of.Detail)
			}
			for i := range probes {
				if probes[i].Endpoint == of.Endpoint {
					return (probes[i].Sent - of.TTFT).Abs(), nil
				}
			}
			return of.Total - of.TTFT, nil
		default:
			probe := lonely(chat, 7, 1)
			probe.Due = time.Since(start)
			probes = append(probes, client.Do(ctx, &probe, start))
			time.Sleep(betweenProbes)
		}
	}
}

// lonely returns a request that shares no text with others.
func lonely(k kind, tokens, answer int) loadgen.Request {
	var p pen
	s := &session{kind: k, tools: []byte("[]")}
	begin := strings.Repeat(fmt.Sprintf("%08x ", time.Now().UnixNano()%(1<<32)), tokens*4/9+1)
	prompt := []loadgen.Message{traffic.System(begin), traffic.User("go on")}
	return p.write("first-token", s, false, 0, &traffic.Turn{Answer: answer}, prompt)
}
