package loadgen

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
)

func chat(seed uint64) Workload {
	return Workload{
		Seed: seed, Count: 400, Rate: 100, Stream: true,
		Prompt: LogNormal{Median: 100, Sigma: 1, Min: 4, Max: 2000},
		Output: LogNormal{Median: 14, Sigma: 1, Min: 8, Max: 400},
	}
}

func TestSameSeedSameTraffic(t *testing.T) {
	a, err := chat(1).Requests()
	if err != nil {
		t.Fatal(err)
	}
	b, _ := chat(1).Requests()
	if !reflect.DeepEqual(a, b) {
		t.Error("the same workload expanded to different requests")
	}
	c, _ := chat(2).Requests()
	if reflect.DeepEqual(a, c) {
		t.Error("another seed expanded to the same requests")
	}
}

func TestRequestsMatchTheirBodies(t *testing.T) {
	w := chat(3)
	reqs, err := w.Requests()
	if err != nil {
		t.Fatal(err)
	}
	for i, q := range reqs {
		var b completionBody
		if err := json.Unmarshal(q.Body, &b); err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
		words := len(strings.Fields(b.Messages[0].Content))
		if words != q.Prompt || b.MaxTokens != q.MaxTokens || !b.Stream || !b.StreamOptions.IncludeUsage {
			t.Fatalf("request %d: %d words, max_tokens %d, want %d and %d", i, words, b.MaxTokens, q.Prompt,
				q.MaxTokens)
		}
		if i > 0 && q.Due < reqs[i-1].Due {
			t.Fatalf("request %d is due before its predecessor", i)
		}
	}
}

func TestConversationBody(t *testing.T) {
	messages := []Message{{"system", "be brief"}, {"user", "a \"b\""}, {"assistant", "c"}, {"user", "d"}}
	body, err := ConversationBody("m", messages, 7, true)
	if err != nil {
		t.Fatal(err)
	}
	var got completionBody
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.Messages, messages) || got.Model != "m" || got.MaxTokens != 7 || !got.Stream ||
		!got.IgnoreEOS {
		t.Errorf("%+v", got)
	}
	longer, _ := ConversationBody("m", append(messages, Message{"assistant", "e"}), 7, true)
	if n := strings.Index(string(body), `}],"max_tokens"`); !strings.HasPrefix(string(longer), string(body[:n])) {
		t.Errorf("a longer conversation does not extend the shorter one:\n%s\n%s", body, longer)
	}
}

func TestBodiesWithToolsAndWithAText(t *testing.T) {
	messages := []Message{{"user", "a"}}
	tools := `[{"type":"function","function":{"name":"f"}}]`
	agent, err := AgentBody("m", json.RawMessage(tools), messages, 7, true)
	if err != nil || !strings.HasPrefix(string(agent), `{"model":"m","tools":`+tools+`,"messages":[`) {
		t.Errorf("%s, %v", agent, err)
	}
	text, err := CompletionBody("m", "a b", 7, true)
	want := `{"model":"m","prompt":"a b","max_tokens":7,"stream":true,"stream_options":{"include_usage":true},"ignore_eos":true}`
	if err != nil || string(text) != want {
		t.Errorf("%s, %v", text, err)
	}
}

func TestArrivals(t *testing.T) {
	w := chat(4)
	w.Arrivals = Constant
	even, err := w.Requests()
	if err != nil {
		t.Fatal(err)
	}
	for i, q := range even {
		if q.Due != time.Duration(i)*10*time.Millisecond {
			t.Fatalf("request %d due at %v", i, q.Due)
		}
	}
	w.Arrivals, w.Count = Poisson, 5000
	random, _ := w.Requests()
	// The sum of 4999 exponential gaps has a standard deviation of 1.4 %; five of them are allowed.
	if got := random[w.Count-1].Due.Seconds(); math.Abs(got-50) > 3.5 {
		t.Errorf("5000 Poisson arrivals at 100/s took %.1f s", got)
	}
	short := 0
	for i := 1; i < len(random); i++ {
		if random[i].Due-random[i-1].Due < 10*time.Millisecond {
			short++
		}
	}
	if share := float64(short) / 4999; math.Abs(share-(1-1/math.E)) > 0.05 {
		t.Errorf("%.2f of the gaps are below the mean, want %.2f", share, 1-1/math.E)
	}
}

func TestWorkloadIsValidated(t *testing.T) {
	for name, spoil := range map[string]func(*Workload){
		"count":    func(w *Workload) { w.Count = 0 },
		"rate":     func(w *Workload) { w.Rate = 0 },
		"prompt":   func(w *Workload) { w.Prompt = nil },
		"output":   func(w *Workload) { w.Output = nil },
		"arrivals": func(w *Workload) { w.Arrivals = "bursty" },
	} {
		w := chat(1)
		spoil(&w)
		if _, err := w.Requests(); err == nil {
			t.Errorf("bad %s was accepted", name)
		}
	}
}

// TestModelsAreDrawn checks the shares of models, and that the seed decides which requests have them.
func TestModelsAreDrawn(t *testing.T) {
	w := Workload{Seed: 5, Count: 4000, Rate: 10, Prompt: Fixed(3), Output: Fixed(2)}
	w.Models = []Model{{"a", 3}, {"never", 0}, {"b", 1}}
	reqs, err := w.Requests()
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for i := range reqs {
		var body struct{ Model string }
		if err := json.Unmarshal(reqs[i].Body, &body); err != nil {
			t.Fatal(err)
		}
		if count[body.Model]++; body.Model != reqs[i].Model {
			t.Fatalf("request %d is for %q, its body has %q", i, reqs[i].Model, body.Model)
		}
	}
	if len(count) != 2 || count["a"] < 2850 || count["a"] > 3150 {
		t.Errorf("models %v, want three a for each b", count)
	}
	if again, err := w.Requests(); err != nil || !reflect.DeepEqual(again, reqs) {
		t.Errorf("the same workload expands to other requests, %v", err)
	}
	w.Models = []Model{{"a", 0}}
	if _, err := w.Requests(); err == nil {
		t.Error("models without weight were taken")
	}
}

func TestLengths(t *testing.T) {
	for _, tc := range []struct {
		of   Lengths
		low  int
		high int
		p50  float64 // analytic median
		p99  float64 // analytic 99th percentile, before the cut
	}{
		{Fixed(64), 64, 64, 64, 64},
		{LogNormal{100, 1.2, 4, 1200}, 4, 1200, 100, 100 * math.Exp(1.2*2.326)},
	} {
		r := rand.New(rand.NewPCG(1, 2))
		const n = 20000
		below50, above99 := 0, 0
		for range n {
			x := tc.of.Draw(r)
			if x < tc.low || x > tc.high {
				t.Fatalf("%+v drew %d, outside %d..%d", tc.of, x, tc.low, tc.high)
			}
			if float64(x) <= tc.p50+0.5 {
				below50++
			}
			if float64(x) > tc.p99+0.5 {
				above99++
			}
		}
		if tc.low == tc.high {
			continue
		}
		if share := float64(below50) / n; math.Abs(share-0.5) > 0.03 {
			t.Errorf("%+v: share at or below the analytic median %.3f", tc.of, share)
		}
		if share := float64(above99) / n; tc.p99 < float64(tc.high) && math.Abs(share-0.01) > 0.004 {
			t.Errorf("%+v: share above the analytic p99 %.4f", tc.of, share)
		}
	}
}
