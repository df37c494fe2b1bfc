package prefix

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/bench/scripted"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/traffic"
	"github.com/warmgate/warmgate/internal/vllmsim"
	"github.com/warmgate/warmgate/internal/vllmsim/vllmsimtest"
)

// witness passes requests to a simulated server and keeps their messages, as they came on the wire.
type witness struct {
	mu       sync.Mutex
	prompts  []string            // JSON arrays
	sessions map[string][]string // prompts by session
	refuse   func(prompt string) bool
}

func newWitness(t *testing.T) (*witness, *scripted.Player) {
	t.Helper()
	return newWitnessAt(t, compare.Path)
}

func newWitnessAt(t *testing.T, path string) (*witness, *scripted.Player) {
	t.Helper()
	cfg := vllmsim.Config{Tuning: vllmsim.NoLatency()}
	cfg.NumBlocks, cfg.MaxModelLen, cfg.MaxNumSeqs = 1<<16, 1<<15, 64
	sim := vllmsimtest.StartT(t, cfg)
	target, err := url.Parse(sim.URL())
	if err != nil {
		t.Fatal(err)
	}
	w := &witness{sessions: map[string][]string{}}
	pass := httputil.NewSingleHostReverseProxy(target)
	front := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		prompt := gjson.GetBytes(body, "messages").Raw + gjson.GetBytes(body, "prompt").Str
		if w.see(prompt, r.Header.Get(scripted.SessionHeader)) {
			http.Error(rw, "refused", http.StatusTeapot)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		pass.ServeHTTP(rw, r)
	}))
	t.Cleanup(front.Close)
	client := loadgen.NewClient(loadgen.Options{URL: front.URL + path})
	t.Cleanup(client.Close)
	return w, &scripted.Player{Client: client}
}

// see keeps a prompt and reports whether it is to be refused.
func (w *witness) see(prompt, session string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.prompts = append(w.prompts, prompt)
	w.sessions[session] = append(w.sessions[session], prompt)
	return w.refuse != nil && w.refuse(prompt)
}

// continues reports whether a prompt, byte for byte, begins with another and continues it with an answer of the
// assistant.
func continues(prompt, before string) bool {
	return strings.HasPrefix(prompt, strings.TrimSuffix(before, "]")+`,{"role":"assistant","content":"`)
}

func TestATurnExtendsThePromptBefore(t *testing.T) {
	w, p := newWitness(t)
	const n, turns, answer = 4, 3, 30
	r := random(1, "test")
	var scripts []script
	for i := range n {
		scripts = append(scripts, script{
			Session: string(rune('a' + i)),
			Turns:   traffic.Conversation(r, []loadgen.Message{traffic.System("all")}, turns, 20, answer),
		})
		for k := range scripts[i].Turns {
			scripts[i].Turns[k].Think = 0
		}
	}
	samples := p.Play(context.Background(), scripts, 2)
	if len(samples) != n*turns {
		t.Fatalf("%d samples", len(samples))
	}
	for session, prompts := range w.sessions {
		for i := 1; i < len(prompts); i++ {
			if !continues(prompts[i], prompts[i-1]) {
				t.Errorf("session %s: turn %d does not extend the previous one:\n%s\n%s", session, i,
					prompts[i-1], prompts[i])
			}
			var messages []loadgen.Message
			if err := json.Unmarshal([]byte(prompts[i]), &messages); err != nil {
				t.Fatal(err)
			}
			given := messages[len(messages)-2].Content
			if want := scripts[session[0]-'a'].Turns[i-1].Answer; len(given) != 4*want {
				t.Errorf("session %s: the answer before turn %d has %d bytes, want %d tokens", session, i,
					len(given), want)
			}
		}
	}
	// The cached tokens that the server reports show that the answers are its own.
	for _, s := range samples {
		if !s.OK() || s.Text != "" {
			t.Fatalf("%+v", s)
		}
	}
	if r := resultOf(samples, 1); r.Cached < 0.4 {
		t.Errorf("the server found only %.2f of the prompts in its cache", r.Cached)
	}
}

func TestBranchesOfATreeShareTheirStem(t *testing.T) {
	w, p := newWitness(t)
	scripts := scriptsOf(trees("test", 2, 1, 2))
	samples := p.Play(context.Background(), scripts, 1)
	if len(samples) != 30 || len(w.prompts) != 30 {
		t.Fatalf("%d samples of %d prompts", len(samples), len(w.prompts))
	}
	children := map[int]int{} // how many prompts are continued so often
	for _, stem := range w.prompts {
		n := 0
		for _, prompt := range w.prompts {
			// The branches themselves, not what grows on them: one more question and answer.
			if continues(prompt, stem) && strings.Count(prompt, `"user"`) == strings.Count(stem, `"user"`)+1 {
				n++
			}
		}
		children[n]++
	}
	if children[2] != 14 || children[0] != 16 {
		t.Errorf("prompts by number of branches: %v, want 14 with 2 and 16 with none", children)
	}
}

func TestWhatCannotBeSentIsCounted(t *testing.T) {
	w, p := newWitness(t)
	scripts := scriptsOf(trees("test", 1, 1, 2))
	branch := scripts[0].Turns[1].Add[0].Content
	w.refuse = func(prompt string) bool { return strings.Contains(prompt, branch) }
	sum := loadgen.Summarize(p.Play(context.Background(), scripts, 1))
	if sum.Requests != 15 || sum.OK != 8 || sum.Errors["status_418"] != 1 || sum.Errors[loadgen.ErrNotSent] != 6 {
		t.Errorf("%+v", sum)
	}
}

func TestOpenLoopCountsFromTheDueTime(t *testing.T) {
	seen, p := newWitness(t)
	w := replay(traceName, sample(t), 0, 4, traffic.TraceScale).over(60 * time.Millisecond)
	scripts := w.scripts(1)
	samples := p.Play(context.Background(), scripts, 0)
	if len(samples) != 4 || len(seen.prompts) != 4 {
		t.Fatalf("%d samples of %d prompts", len(samples), len(seen.prompts))
	}
	for _, s := range samples {
		if s.Sent < s.Due || s.Due%20_000_000 != 0 {
			t.Errorf("due at %v, sent at %v", s.Due, s.Sent)
		}
	}
}

func TestTheClientNamesTheEndpoint(t *testing.T) {
	_, p := newWitness(t)
	chosen, began, ended := 0, 0, 0
	p.Choose = func(*scripted.Question) (string, scripted.UnderWay) {
		chosen++
		return "127.0.0.1:1", scripted.UnderWay{First: func() { began++ }, Done: func() { ended++ }}
	}
	scripts := []script{{Session: "x", Turns: traffic.Conversation(random(1, "x"), nil, 2, 4, 4)}}
	p.Play(context.Background(), scripts, 1)
	if chosen != 2 || began != 2 || ended != 2 {
		t.Errorf("%d choices, %d answers began, %d ended", chosen, began, ended)
	}
}

func TestACancelledRunEnds(t *testing.T) {
	_, p := newWitness(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	samples := p.Play(ctx, scriptsOf(sessions()), 20)
	if sum := loadgen.Summarize(samples); sum.OK != 0 || sum.Requests != 300 {
		t.Errorf("%+v", sum)
	}
}
