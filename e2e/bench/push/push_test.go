package main

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/bench/scripted"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/vllmsim"
)

func TestWorkloads(t *testing.T) {
	for _, w := range workloads() {
		scripts := w.scripts(1)
		if !reflect.DeepEqual(scripts, w.scripts(1)) || reflect.DeepEqual(scripts, w.scripts(2)) {
			t.Errorf("%s: the traffic does not follow from the seed", w.name)
		}
		if len(scripts) < w.warm+2*w.clients || w.warm < w.clients/2 {
			t.Errorf("%s: %d trees for %d users", w.name, len(scripts), w.clients)
		}
		var answers []int
		longest := 0
		for i := range scripts {
			for _, turn := range scripts[i].Turns {
				answers = append(answers, turn.Answer)
			}
			longest = max(longest, scripts[i].Longest())
		}
		slices.Sort(answers)
		p50, p99 := loadgen.Quantile(answers, 0.5), loadgen.Quantile(answers, 0.99)
		if varies := p99 > 4*p50; varies != (len(w.lengths.varying) > 0) {
			t.Errorf("%s: half of the answers have at most %d tokens, and 99 %% at most %d", w.name, p50, p99)
		}
		if room := w.server.NumBlocks * w.server.BlockSize; longest > room {
			t.Errorf("%s: a conversation of %d tokens does not fit in a server with room for %d", w.name, longest, room)
		}
		if text := w.describe(); !strings.Contains(text, w.name) || strings.Contains(text, "%!") {
			t.Errorf("%s is described as %q", w.name, text)
		}
	}
}

func TestAdjust(t *testing.T) {
	w := workload{trees: 21, warm: 4, clients: 30}
	w.adjust(settings{quick: true, clients: 7})
	if w.trees != 13 || w.clients != 7 {
		t.Errorf("%d trees, %d users", w.trees, w.clients)
	}
}

// TestContenders checks that each is configured as its name says, and that no two share an index.
func TestContenders(t *testing.T) {
	secrets := map[string]bool{}
	caps := 0
	for _, c := range contenders([]int{5, 9}, []int{1, 4}) {
		if c.describe() == "" {
			t.Errorf("%s has no description", c.name)
		}
		if c.cap > 0 {
			caps++
		}
		if c.policy.Plugin == "" {
			continue
		}
		var config struct {
			Policy string `json:"lb_policy"`
			Config struct {
				Push  string `json:"push"`
				Cap   int    `json:"max_inflight"`
				Ahead int    `json:"push_ahead"`
				Queue struct {
					MaxWait string `json:"max_wait"`
					Skip    int    `json:"skip"`
				} `json:"queue"`
				Envoy  map[string]string `json:"envoy"`
				Prefix struct {
					Secret string `json:"secret"`
				} `json:"prefix"`
			} `json:"lb_config"`
		}
		if err := json.Unmarshal([]byte(c.policy.Plugin), &config); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		got := config.Config
		if push, _, _ := strings.Cut(c.name, " "); config.Policy != "prefix_cache" ||
			got.Push != strings.TrimPrefix(push, blindName) || got.Cap != c.cap ||
			(got.Push != "") != (got.Queue.MaxWait == "30s") {
			t.Errorf("%s: %+v", c.name, config)
		}
		if metrics := got.Envoy["metrics_cluster"] != ""; metrics != (got.Push == "pending" &&
			!strings.HasSuffix(c.name, "no metrics")) {
			t.Errorf("%s: metrics are read: %v", c.name, metrics)
		}
		if strings.HasSuffix(c.name, "ahead 4") != (got.Ahead == 4) || strings.Contains(c.name, "skip") !=
			(got.Queue.Skip == 100) {
			t.Errorf("%s: %+v", c.name, got)
		}
		if secrets[got.Prefix.Secret] {
			t.Errorf("%s has a secret that another has", c.name)
		}
		secrets[got.Prefix.Secret] = true
	}
	if caps != 2 {
		t.Errorf("%d contenders with push: outstanding", caps)
	}
}

// TestWindow begins with the first tree that does not only warm up, and ends when the last begins.
func TestWindow(t *testing.T) {
	const second = time.Second
	begins := []time.Duration{0, second, 2 * second, 5 * second, 4 * second}
	if w := windowOf(begins, 2); w != (scripted.Window{From: 2 * second, To: 5 * second}) {
		t.Errorf("%+v", w)
	}
	if w := windowOf(begins, 9); w.From != 4*second {
		t.Errorf("all only warm up: %+v", w)
	}
}

// run of one contender: its rate, p90 and p99 of TTFT in ms, and cached share.
func ran(rate, p90, p99 int, cached float64) []result {
	r := result{Figures: scripted.Figures{Cached: cached, Rate: float64(rate)}}
	r.Summary.TTFT = loadgen.Quantiles{
		P90: time.Duration(p90) * time.Millisecond, P99: time.Duration(p99) * time.Millisecond,
	}
	return []result{r, r}
}

// madeUp is a report of which all targets are met, with another share cached on trees24.
func madeUp(found float64) *report {
	rep := &report{
		settings:  settings{rounds: 2, own: ownName, workers: 2},
		workloads: []workload{trees2(), trees24()},
	}
	list := contenders([]int{12, 24}, []int{1})
	var first, second [][]result
	for _, c := range list {
		switch {
		case c.name == ownName:
			first, second = append(first, ran(1300, 40, 90, 0.9)), append(second, ran(1, 1, 110, found))
		case c.name == blindName:
			first, second = append(first, ran(1000, 200, 900, 0.7)), append(second, ran(1, 1, 130, 0.88))
		case c.cap == 12:
			first, second = append(first, ran(800, 50, 90, 0.8)), append(second, ran(1, 1, 140, 0.9))
		case c.cap == 24:
			first, second = append(first, ran(1040, 60, 90, 0.8)), append(second, ran(1, 1, 150, 0.9))
		case c.added:
			first, second = append(first, ran(9000, 1, 1, 1)), append(second, ran(9000, 1, 1, 1))
		default:
			first, second = append(first, ran(500, 500, 500, 0.5)), append(second, ran(1, 1, 121, 0.6))
		}
	}
	rep.contenders, rep.results = list, [][][]result{first, second}
	return rep
}

func TestLine(t *testing.T) {
	l := madeUp(0.93).line()
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"tokens_vs_blind", *l.TokensVsBlind, 1.3},
		{"ttft_p90_vs_blind", *l.TTFTVsBlind, 0.2},
		{"tokens_vs_outstanding", *l.TokensVsOutst, 1.25},
		{"trees24_cached", *l.Trees24Cached, 0.93},
		{"trees24_ttft_p99_vs_best", *l.Trees24VsBest, 110. / 121},
	} {
		if math.Abs(c.got-c.want) > 1e-9 {
			t.Errorf("%s is %v, want %v", c.name, c.got, c.want)
		}
	}
	if !l.Met || l.BestCap != 24 || l.Trees24Best != "round_robin" {
		t.Errorf("%+v", l)
	}
	if madeUp(0.91).line().Met {
		t.Error("the target is met with 0.91 cached")
	}
	part := madeUp(0.93)
	part.workloads, part.results = part.workloads[:1], part.results[:1]
	if l := part.line(); l.Met || l.Trees24Cached != nil || l.TokensVsBlind == nil {
		t.Errorf("without trees24: %+v", l)
	}
}

func TestReport(t *testing.T) {
	rep := madeUp(0.93)
	rep.notes = []string{"a note"}
	file := filepath.Join(t.TempDir(), "b.md")
	var out strings.Builder
	if err := bench.Publish(&out, file, rep.configuration(), rep.table(), rep.line()); err != nil {
		t.Fatal(err)
	}
	saved, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{out.String(), string(saved)} {
		for _, want := range []string{
			"1300 (1300..1300)", "trees24, " + ownName, `"push":"pending"`, "30 users", "a note",
			"6592 tokens of KV cache",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("the report lacks %q:\n%s", want, text)
			}
		}
	}
	if !strings.Contains(out.String(), `"tokens_vs_blind":1.3,`) {
		t.Errorf("no last line: %s", out.String())
	}
}

// TestForeseen plays a few trees in simulated time: each request is there once, and measured as the others are.
func TestForeseen(t *testing.T) {
	w := trees24()
	w.trees, w.warm = 7, 1
	scripts := w.scripts(1)
	turns := 0
	for i := range scripts[1:] {
		turns += len(scripts[i+1].Turns)
	}
	for _, c := range limits() {
		r, err := c.play(t.Context(), nil, &w, scripts)
		if err != nil || r.Failed > 0 || r.Summary.OK < turns/2 || r.Summary.OK > turns || r.Rate <= 0 ||
			r.Cached < 0.5 || ttftP90(&r) <= 0 {
			t.Errorf("%s: %v, %d turns: %s", c.name, err, turns, r)
		}
	}
}

// TestRound plays a few trees through a real Envoy, natively and by Warmgate.
func TestRound(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Envoy")
	}
	w := workload{
		name: "tiny", trees: 7, warm: 1, clients: 2, branches: []int{2},
		server:  vllmsim.Config{MaxNumSeqs: 2, MaxQueued: -1, NumBlocks: 2048, Tuning: vllmsim.NoLatency()},
		lengths: lengths{system: 50, problem: 20, step: 5, each: 1, varying: []loadgen.Lengths{loadgen.Fixed(9)}},
	}
	s := settings{rounds: 1, workers: 1, caps: []int{2}}
	rep := &report{settings: s, workloads: []workload{w}}
	for _, c := range contenders(s.caps, nil) {
		if c.name == compare.LeastRequest.Name || c.name == blindName {
			rep.contenders = append(rep.contenders, c)
		}
	}
	ctx := context.Background()
	module, err := harness.Wasm(ctx, harness.HostEnvoy)
	if err != nil {
		t.Fatal(err)
	}
	results, err := rounds(ctx, s, module, &w, rep.contenders)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range rep.contenders {
		r := results[i][0]
		if r.Failed > 0 || r.Summary.OK < 15 || r.Summary.Tokens != r.Summary.OK*9 || r.Rate <= 0 ||
			r.Cached <= 0.3 || r.cpu <= 0 || r.cpu > 1 {
			t.Errorf("%s: %+v", c.name, r)
		}
	}
}
