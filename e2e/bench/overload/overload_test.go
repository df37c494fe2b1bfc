package overload

import (
	"context"
	"encoding/json"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/benchtest"
	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/loadgen"
)

func TestCalls(t *testing.T) {
	const load, span = 4, 100 * time.Second
	calls, err := Calls(1, load, fleet(), span, false)
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := Calls(1, load, fleet(), span, false); !reflect.DeepEqual(calls, again) {
		t.Error("the same seed gave other calls")
	}
	limit, err := capacity()
	if err != nil {
		t.Fatal(err)
	}
	if rate := float64(len(calls)) / span.Seconds(); math.Abs(rate/(load*limit)-1) > 0.02 {
		t.Errorf("%.1f calls a second of a capacity of %.1f", rate, limit)
	}
	count, ids := map[string]int{}, map[string]bool{}
	for i := range calls {
		count[calls[i].class.name]++
		ids[calls[i].id] = true
	}
	if len(ids) != len(calls) {
		t.Errorf("%d ids for %d calls", len(ids), len(calls))
	}
	sum := 0.0
	for _, c := range classes {
		sum += c.share
		if got := float64(count[c.name]) / float64(len(calls)); math.Abs(got-c.share) > 0.02 {
			t.Errorf("class %s has %.3f of the calls, want %.3f", c.name, got, c.share)
		}
	}
	if math.Abs(sum-1) > 1e-9 || classes[0].name != critical || classes[0].share > 0.1 {
		t.Errorf("the classes have %v of the calls together; %+v", sum, classes[0])
	}
}

// TestTheLongestAnswerIsInTime checks that whatever begins at once meets its deadline, with a second to spare.
func TestTheLongestAnswerIsInTime(t *testing.T) {
	tuning, w := fleet()[0].Tuning, workload(0)
	step := tuning.DecodeStepMS + tuning.DecodeSeqMS*slots
	longest := step * float64(w.Output.(loadgen.LogNormal).Max) / 1000
	for _, c := range classes {
		if longest > c.deadline.Seconds()-1 {
			t.Errorf("%s: an answer takes up to %.1f s, the deadline is %v", c.name, longest, c.deadline)
		}
	}
}

// gate is a server that refuses the first n attempts of each call, and keeps what it was sent.
type gate struct {
	mu      sync.Mutex
	refuse  int
	after   string // Retry-After; "" = none
	status  int
	headers map[string][]http.Header // by id
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	id := r.Header.Get(idHeader)
	g.headers[id] = append(g.headers[id], r.Header.Clone())
	if len(g.headers[id]) <= g.refuse {
		if g.after != "" {
			w.Header().Set(retryHeader, g.after)
		}
		w.WriteHeader(g.status)
		return
	}
	_, _ = w.Write([]byte(`{"choices":[{}],"usage":{"completion_tokens":1}}`))
}

// playOne sends one call of a class with the deadline to the gate.
func playOne(t *testing.T, g *gate, deadline time.Duration) outcome {
	t.Helper()
	g.headers = map[string][]http.Header{}
	server := httptest.NewServer(g)
	defer server.Close()
	client := loadgen.NewClient(loadgen.Options{URL: server.URL, KeepHeaders: []string{retryHeader, waitHeader}})
	defer client.Close()
	p := player{client: client}
	c := Call{class: &class{name: "batch", deadline: deadline}, id: "x", seed: 3}
	return p.play(context.Background(), []Call{c})[0]
}

func TestAClientTriesAgain(t *testing.T) {
	for _, c := range []struct {
		name     string
		gate     *gate
		deadline time.Duration
		attempts int
		good     bool
		least    time.Duration // until the last attempt
	}{
		{"answered at once", &gate{}, time.Minute, 1, true, 0},
		{"backs off twice", &gate{refuse: 2, status: 503}, time.Minute, 3, true, 1100 * time.Millisecond},
		{"gives up after three", &gate{refuse: 9, status: 429}, time.Minute, 3, false, 1100 * time.Millisecond},
		{"does as it is told", &gate{refuse: 1, status: 429, after: "1"}, time.Minute, 2, true, time.Second},
		{"no time is left", &gate{refuse: 1, status: 429, after: "9"}, 2 * time.Second, 1, false, 0},
		{"its own mistake", &gate{refuse: 1, status: 400}, time.Minute, 1, false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := playOne(t, c.gate, c.deadline)
			if len(o.attempts) != c.attempts || o.good != c.good {
				t.Fatalf("%d attempts, good %v, want %d, %v", len(o.attempts), o.good, c.attempts, c.good)
			}
			if last := o.attempts[c.attempts-1].Sent; last < c.least {
				t.Errorf("the last attempt began after %v, want at least %v", last, c.least)
			}
			left := math.MaxInt
			if len(c.gate.headers) != 1 {
				t.Fatalf("%d ids", len(c.gate.headers))
			}
			for _, h := range slices.Concat(slices.Collect(maps.Values(c.gate.headers))...) {
				ms, err := strconv.Atoi(h.Get(deadlineHeader))
				if err != nil || ms > left || h.Get(classHeader) != "batch" {
					t.Errorf("an attempt of class %q with %d ms left, after one with %d", h.Get(classHeader), ms, left)
				}
				left = ms
			}
		})
	}
}

func TestAClientLeavesAfterItsDeadline(t *testing.T) {
	held := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-held:
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	defer close(held)
	client := loadgen.NewClient(loadgen.Options{URL: server.URL})
	defer client.Close()
	p := player{client: client}
	o := p.play(context.Background(), []Call{{class: &class{deadline: 50 * time.Millisecond}}})[0]
	if len(o.attempts) != 1 || o.good || o.attempts[0].Error != loadgen.ErrTimeout {
		t.Errorf("%+v", o)
	}
}

func TestPauses(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	told := loadgen.Sample{Header: http.Header{retryHeader: {"3"}}}
	for range 100 {
		if p := pauseAfter(&told, 1, r); p < 3*time.Second || p > 3300*time.Millisecond {
			t.Fatalf("a pause of %v after Retry-After: 3", p)
		}
		for n, mean := range []time.Duration{backoff, 2 * backoff} {
			if p := pauseAfter(&loadgen.Sample{}, n+1, r); p < mean*3/4 || p > mean*5/4 {
				t.Fatalf("a pause of %v after attempt %d", p, n+1)
			}
		}
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct {
		sample      loadgen.Sample
		yes, waited bool
	}{
		{loadgen.Sample{Status: 200}, false, false},
		{loadgen.Sample{Status: 504}, false, false},
		{loadgen.Sample{Status: 503}, true, false},
		{loadgen.Sample{Status: 429, Header: http.Header{waitHeader: {"0"}}}, true, false},
		{loadgen.Sample{Status: 429, Header: http.Header{waitHeader: {"17"}}}, true, true},
		{loadgen.Sample{Status: 429, Detail: `{"error":{"code":"queue_timeout"}}`}, true, true},
	} {
		if yes, waited := refused(&c.sample); yes != c.yes || waited != c.waited {
			t.Errorf("%+v: refused %v, after a wait %v", c.sample, yes, waited)
		}
	}
}

func TestResult(t *testing.T) {
	ok := loadgen.Sample{Status: 200}
	no := loadgen.Sample{Status: 429, Error: "status_429", Total: 2 * time.Millisecond}
	retried := loadgen.Sample{Status: 200, Due: 1500 * time.Millisecond, TTFT: 3 * time.Millisecond}
	left := loadgen.Sample{Error: loadgen.ErrTimeout}
	broken := loadgen.Sample{Error: loadgen.ErrReset}
	late := loadgen.Sample{
		Status: 429, Error: "status_429", Detail: `{"error":{"code":"queue_timeout"}}`, Header: http.Header{waitHeader: {"50"}},
	}
	second := time.Second
	r := resultOf([]outcome{
		{class: &classes[0], due: 0, end: second, good: true, attempts: []loadgen.Sample{no, ok}}, // warms up
		{class: &classes[0], due: second, end: second, good: true, late: 3, attempts: []loadgen.Sample{no, retried}},
		{class: &classes[0], due: 2 * second, late: 4, attempts: []loadgen.Sample{no, no, no}},
		{class: &classes[1], due: 2 * second, end: 4 * second, good: true, attempts: []loadgen.Sample{ok}},
		{class: &classes[1], due: 2 * second, end: 2 * second, attempts: []loadgen.Sample{ok}}, // too late
		{class: &classes[2], due: 2 * second, attempts: []loadgen.Sample{broken, late, left}},
		// After the end.
		{class: &classes[2], due: 3 * second, end: 3 * second, good: true, attempts: []loadgen.Sample{ok}},
	}, second, 2*second)
	if r.calls != 5 || r.Goodput != 1 || r.lost != 1 || r.refused != 4 || r.waited != 1 || r.unheard != 1 ||
		r.Failed != 1 || r.attempts != 2 || r.late != 4 || r.atOnce.P99 != 2*time.Millisecond ||
		r.TTFT.Max != 503*time.Millisecond {
		t.Errorf("%+v", r)
	}
	if r.Good[critical] != 0.5 || r.Good["interactive"] != 0.5 || r.Good["batch"] != 0 {
		t.Errorf("in time: %v", r.Good)
	}
}

// TestFalseRefusals has calls come to a full queue of one class: one is refused, and then another is served.
func TestFalseRefusals(t *testing.T) {
	c := &class{name: "batch", deadline: 10 * time.Second}
	at := func(sent time.Duration, s loadgen.Sample) outcome {
		s.Sent = sent
		return outcome{class: c, due: sent, takes: time.Second, attempts: []loadgen.Sample{s}}
	}
	no := loadgen.Sample{Status: 429, Error: "status_429", Detail: `{"error":{"code":"deadline_unreachable"}}`}
	retry := no
	retry.Detail = `{"error":{"code":"retry_budget_exceeded"}}`
	served := func(ms string) loadgen.Sample {
		return loadgen.Sample{Status: 200, Header: http.Header{waitHeader: {ms}}}
	}
	for _, tc := range []struct {
		name   string
		second loadgen.Sample
		first  loadgen.Sample
		want   int
	}{
		{"the next begins in time", served("6000"), no, 1},
		{"and too late", served("8500"), no, 0},
		{"it is refused, too", no, no, 0},
		{"a retry", served("6000"), retry, 0},
	} {
		out := []outcome{at(time.Second, tc.first), at(2*time.Second, tc.second)}
		if got := falseRefusals(out, 0, time.Minute); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
}

// madeUp is a report of two rounds in which Warmgate meets its target but for the given calls that were lost.
func madeUp(lost int) *report {
	rep := &report{settings: settings{
		Settings: bench.Settings{Rounds: 2, Own: pendingName}, loads: []float64{1, 2, 10}, warm: time.Second,
		span: time.Second,
	}, capacity: 42, contenders: contenders()}
	for _, c := range rep.contenders {
		runs := []Result{{Goodput: 40}, {Goodput: 20, refused: 9, lost: 7}, {Goodput: 4, refused: 99, lost: 30}}
		if c.Name == pendingName {
			runs = []Result{{Goodput: 38}, {Goodput: 40, refused: 9}, {Goodput: 37, refused: 9, lost: lost}}
		}
		for k := range runs {
			runs[k].Good = map[string]float64{critical: 1}
			runs[k].late = time.Duration(k) * time.Millisecond
			runs[k].atOnce.P99 = time.Duration(2*k) * time.Millisecond
			rep.Add(at(rep.settings.loads[k]), c.Name, runs[k], runs[k])
		}
	}
	return rep
}

func TestLine(t *testing.T) {
	l := madeUp(0).line()
	if l["target_met"] != true || l["goodput_2x"] != 1.0 || l["goodput_10x"] != 0.925 || l["refusal_p99_ms"] != 4.0 ||
		l["critical_lost"] != 0 || l["best_goodput"].(bench.Spread).Median != 40 {
		t.Errorf("%+v", l)
	}
	other := l["contenders"].(map[string]bench.Line)[breakersName]
	if other["goodput_2x"] != 0.5 || other["goodput_10x"] != 0.1 || other["critical_lost"] != 74 {
		t.Errorf("%+v", other)
	}
	if l := madeUp(1).line(); l["target_met"] != false || l["critical_lost"] != 2 {
		t.Errorf("with a call of the critical class lost in each round: %+v", l)
	}
	raw, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"bench":"overload"`, `"goodput_2x":1,`, `"goodput_10x":0.925,`, `"refusal_p99_ms":4,`, `"critical_lost":0`,
		`"late_p99_ms":2`,
	} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("the line lacks %s: %s", want, raw)
		}
	}
	late := madeUp(0)
	late.Of(at(10), pendingName)[1].late = time.Second
	if l := late.line(); l["target_met"] != false ||
		!strings.Contains(strings.Join(late.configuration(), "\n"), "up to 1000 ms late") {
		t.Errorf("with a generator that was late: %+v", l)
	}
	rep := madeUp(0)
	rep.settings.Own = "another"
	if l := rep.line(); l["target_met"] != false || l["goodput_2x"] != nil {
		t.Errorf("of a contender that was not played: %+v", l)
	}
}

func TestReport(t *testing.T) {
	rep := madeUp(0)
	benchtest.Report(t, rep.configuration(), rep.table(), rep.line(),
		"pending, 10 ×", "37.0 (37.0..37.0)", "0.93 (0.93..0.93)", `"push":"pending"`, "max_requests 24",
		"critical 4.3 % of the arrivals", "a capacity of 42.0 requests/s", "admission_control filter",
	)
}

// TestRound plays a second of each kind of contender through a real Envoy: the gateway takes their configurations.
func TestRound(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Envoy")
	}
	saved := slices.Clone(classes)
	t.Cleanup(func() { copy(classes, saved) })
	for i := range classes {
		classes[i].deadline *= 20 // so that a busy machine meets them
	}
	ctx := context.Background()
	s := settings{
		Settings: bench.Settings{Rounds: 1, Workers: 1, Seed: 1}, loads: []float64{0.4},
		warm: 100 * time.Millisecond, span: 900 * time.Millisecond,
	}
	stage, err := newBoard(ctx, compare.Options{Workers: s.Workers})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stage.Close(); err != nil {
			t.Error(err)
		}
	})
	// Of this one only critical calls are served, by Envoy's priority HIGH.
	only := priorities("only "+critical, 1, 0, slots)
	rep := &report{settings: s, contenders: append(contenders(), only)}
	if err := rep.play(ctx, stage.Stage); err != nil {
		t.Fatal(err)
	}
	last := rep.Of(at(0.4), only.Name)[0]
	if last.Good[critical] != 1 || last.Good["batch"]+last.Good["interactive"] > 0 {
		t.Errorf("%s: %+v", only.Name, last)
	}
	for _, c := range contenders() {
		r := rep.Of(at(0.4), c.Name)[0]
		if r.calls < 5 || r.Goodput <= 0 || r.lost+r.refused+r.waited+r.Failed+r.unheard > 0 {
			t.Errorf("%s: %+v", c.Name, r)
		}
		if !c.limit && (c.Policy.Plugin == "") != (c.Policy.Cluster != harness.Warmgate) || c.Policy.Describe() == "" {
			t.Errorf("%s: %+v", c.Name, c.Policy)
		}
	}
}
