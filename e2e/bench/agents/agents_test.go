package agents

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/benchtest"
	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/bench/scripted"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/traffic"
	"github.com/warmgate/warmgate/internal/vllmsim"
	"github.com/warmgate/warmgate/internal/vllmsim/vllmsimtest"
)

func TestWorkload(t *testing.T) {
	w := write(1, 32)
	if !reflect.DeepEqual(w, write(1, 32)) || reflect.DeepEqual(w, write(2, 32)) {
		t.Error("the traffic does not follow from the seed")
	}
	of := map[kind]int{}
	for i := range w.scripts {
		s := w.sessions[w.scripts[i].Session]
		of[s.kind]++
		if n := len(s.pictures); (s.kind == pictures) != (n == 3) || len(w.scripts[i].Turns) != turns {
			t.Errorf("session %d of kind %d has %d pictures", i, s.kind, n)
		}
	}
	if want := map[kind]int{messages: 8, chat: 8, adapter: 8, pictures: 4, responses: 4}; !reflect.DeepEqual(of, want) {
		t.Errorf("sessions by kind: %v", of)
	}
	for i, c := range w.servers() {
		if has := slices.Contains(c.Adapters, adapterModel); has != (i < 3) || c.NumBlocks*c.BlockSize < c.MaxModelLen {
			t.Errorf("server %d: %+v", i, c)
		}
	}
	if text := w.describe(); !strings.Contains(text, "of 8 turns") || strings.Contains(text, "%!") {
		t.Errorf("described as %q", text)
	}
}

// turnOf returns the body of a turn of the first session of a kind, and whether two requests for it have the same
// prompt at a server.
func turnOf(t *testing.T, w *workload, k kind, turn int, chatsOnly bool) (body string, same bool) {
	t.Helper()
	s := w.scripts[slices.Index(kinds[:], k)]
	var prompt []loadgen.Message
	for i := range turn + 1 {
		prompt = append(prompt, s.Turns[i].Add...)
		if i < turn {
			prompt = append(prompt, traffic.Assistant("an answer"))
		}
	}
	p := pen{}
	engine := vllmsim.New(vllmsim.Config{})
	var at [2]vllmsim.Prompt
	for i := range at {
		body = string(p.write(s.Session, w.sessions[s.Session], chatsOnly, turn, &s.Turns[turn], prompt).Body)
		var err error
		if at[i], err = engine.Prompt(body, true); err != nil {
			t.Fatal(err)
		}
	}
	return body, reflect.DeepEqual(at[0], at[1])
}

// TestBodies looks for what makes such bodies hard, in the order in which it stands there, and that what changes in
// each request changes no token.
func TestBodies(t *testing.T) {
	w := write(1, len(kinds))
	for _, c := range []struct {
		kind      kind
		chatsOnly bool
		parts     []string
	}{
		{messages, false, []string{
			`"model":"sim"`, `"messages":[`, `"tool_use_id":"toolu_`, `"cache_control"`, `"system":[`,
			"x-anthropic-billing-header", `"tools":[`,
		}},
		{messages, true, []string{`"messages":[`, "x-anthropic-billing-header", `"tools":[`, `"model":"sim"`}},
		{chat, false, []string{`"messages":[`, `"cache_control"`, `"role":"tool"`, `"tools":[`, `"model":"sim"`}},
		{adapter, false, []string{`"messages":[`, `"tools":[`, `"model":"sql-adapter"`}},
		{pictures, false, []string{`"messages":[`, `"data:image/png;base64,`, `"tools":[`}},
		{responses, false, []string{`"input":[`, `"role":"system"`, `"store":true`, `"model":"sim"`}},
	} {
		body, same := turnOf(t, w, c.kind, 4, c.chatsOnly)
		rest := body
		for _, part := range c.parts {
			_, behind, ok := strings.Cut(rest, part)
			if !ok {
				t.Errorf("kind %d: no %s where it belongs, in %d bytes", c.kind, part, len(body))
			}
			rest = behind
		}
		if !same {
			t.Errorf("kind %d: what the client changes in each request changes the prompt", c.kind)
		}
	}
}

// small returns a workload whose sessions are short.
func small(n, turns int) *workload {
	w := write(1, n)
	for i := range w.scripts {
		s := &w.scripts[i]
		s.Turns = s.Turns[:turns]
		first := &s.Turns[0].Add[1]
		first.Content = first.Content[:min(len(first.Content), 30_000)]
	}
	return w
}

// TestSessionsAtOneServer has all sessions served without a gateway: nothing is unknown there, and each turn finds the
// one before.
func TestSessionsAtOneServer(t *testing.T) {
	w := small(len(kinds), 3)
	c := w.servers()[0]
	c.NumBlocks, c.Tuning = 4*c.NumBlocks, vllmsim.NoLatency()
	server := vllmsimtest.StartT(t, c)
	client := loadgen.NewClient(loadgen.Options{URL: server.URL() + compare.Path})
	defer client.Close()
	s := newSender(client, w, false)
	p := scripted.Player{Client: client, Send: s.send}
	r := resultOf(p.Play(t.Context(), w.scripts, 2), s.calls)
	want := [callCount]tally{ordinary: {sent: 16}, toAdapter: {sent: 6}, followUp: {sent: 2}, count: {sent: 18}}
	if r.Failed > 0 || r.Summary.OK != 3*len(kinds) || r.calls != want || r.stays != 1 || r.Cached < 0.6 {
		t.Errorf("%v, %v", r, r.calls)
	}
}

func TestResult(t *testing.T) {
	at := func(id int, server string) loadgen.Sample { return loadgen.Sample{ID: id, Endpoint: server, TTFT: 1} }
	failed := at(turns+1, "3")
	failed.Error = "status_404"
	r := resultOf([]loadgen.Sample{
		at(0, "1"), at(1, "1"), at(2, "0"), at(3, "0"), at(turns, "0"), failed, at(turns+2, "0"), at(2*turns, "0"),
	}, [callCount]tally{followUp: {4, 1}})
	if r.stays != 2./3 || r.Failed != 1 || r.notFound(followUp) != 0.25 || r.notFound(count) != 0 {
		t.Errorf("%+v", r)
	}
}

// ran is what a contender did, in two rounds that differ in their TTFT.
func ran(ms int, off, stays float64, lost tally) []result {
	out := make([]result, 2)
	for i := range out {
		out[i] = result{prediction: scripted.Prediction{Off: off}, stays: stays}
		out[i].calls[followUp] = lost
		out[i].Summary.TTFT.Mean = time.Duration(ms*(i+1)) * time.Millisecond
	}
	return out
}

func TestLine(t *testing.T) {
	rep := &report{
		settings: settings{Settings: bench.Settings{Rounds: 2}, sessions: 8, users: 2}, work: write(1, len(kinds)),
		contenders: contenders(), Notes: bench.Notes{"a note"},
	}
	for i, c := range rep.contenders {
		runs := ran(50, 1, 0, tally{1, 1})
		switch {
		case i == 1:
			runs[1].Summary.TTFT.Mean = 80 * time.Millisecond
		case c.Name() == compare.PrefixCache.Name:
			runs = ran(40, 0.04, 0.9, tally{100, 3})
		}
		rep.Add("", c.Name(), runs...)
	}
	line := rep.line()
	for name, want := range map[string]float64{
		"match_error_points": 4, "stays_share": 0.9, "ttft_vs_best": 0.9, "not_found_share": 0.03,
		"not_found_follow_up": 0.03, "not_found_adapter": 0, "first_token_error_ms": 0,
	} {
		if got, ok := line[name].(float64); !ok || math.Abs(got-want) > 1e-9 {
			t.Errorf("%s is %v, want %v", name, line[name], want)
		}
	}
	if missed := line["missed"]; !reflect.DeepEqual(missed, []string{"stays_share", "not_found_share"}) {
		t.Errorf("missed %v", missed)
	}
	benchtest.Report(t, rep.configuration(), rep.table(), line,
		"a note", "prefix_cache", "all sessions as chats", `"ttft_vs_best_spread":{"median"`,
	)
}

// TestRound plays a few short sessions through a real Envoy.
func TestRound(t *testing.T) {
	harness.LongT(t)
	w := small(16, 4)
	list := w.servers()
	stage, err := compare.NewStage(t.Context(), compare.Options{
		Workers: 1, Servers: list, First: compare.LeastRequest,
	})
	if err != nil {
		t.Fatal(err)
	}
	own := contenders()[len(contenders())-1]
	r, err := play(t.Context(), &own, stage, w, 3)
	if err := errors.Join(err, stage.Close()); err != nil {
		t.Fatal(err)
	}
	t.Log(r)
	// Of 16 requests for the adapter one is asked where it is not, or two, when it is asked again; none of the
	// follow-ups is.
	if lost := r.calls[toAdapter].notFound; lost > 3 || r.calls[followUp] != (tally{6, 0}) {
		t.Errorf("404 for %d of %d requests for the adapter, %+v follow-ups", lost, r.calls[toAdapter].sent,
			r.calls[followUp])
	}
	if r.prediction.Requests < 40 || r.prediction.Off > 0.15 || r.stays < 0.8 {
		t.Errorf("expected %+v, %.2f of the turns stay", r.prediction, r.stays)
	}
	if r.Summary.Errors[loadgen.ErrMalformed]+r.Summary.Errors[loadgen.ErrTruncated] > 0 {
		t.Errorf("failed: %v", r.Summary.Errors)
	}
}

// What agents send in simulated time has the published shape.
func TestShapeOfPrograms(t *testing.T) {
	s := scenes[0]
	s.warm, s.until = 2*time.Minute, 10*time.Minute
	list, err := s.contenders()
	if err != nil {
		t.Fatal(err)
	}
	h, err := s.play(&list[len(list)-1], 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(programColumns.Show(&h))
	n := float64(len(h.ttft))
	if in, out := float64(h.in)/n, float64(h.out)/n; in < 31_000 || in > 36_000 || out < 420 || out > 470 {
		t.Errorf("%.0f tokens in and %.0f out", in, out)
	}
}

// With turns by session each agent is served as much.
func TestPrograms(t *testing.T) {
	s := scenes[1]
	s.warm, s.until = 2*time.Minute, 20*time.Minute
	list, err := s.contenders()
	if err != nil {
		t.Fatal(err)
	}
	of := map[string]figures{}
	for i := range list {
		if list[i].Config == nil {
			continue
		}
		h, err := s.play(&list[i], 1)
		if err != nil {
			t.Fatal(err)
		}
		of[list[i].Name] = h
		t.Log(list[i].Name, programColumns.Show(&h))
		if h.refused > 0 {
			t.Errorf("%s: %d refused", list[i].Name, h.refused)
		}
	}
	fair, usual := of[bySession], of["prefix_cache"]
	if fair.fairness() > 1.3 || usual.fairness() < 1.5 {
		t.Errorf("service of agents, max/min: %.2f by session, %.2f without", fair.fairness(), usual.fairness())
	}
}
