package push

import (
	"encoding/json"
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
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/internal/enginesim"
	"github.com/warmgate/warmgate/internal/vllmsim"
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
		if c.Describe() == "" {
			t.Errorf("%s has no description", c.Name())
		}
		if c.cap > 0 {
			caps++
		}
		if c.Policy.Plugin == "" {
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
		if err := json.Unmarshal([]byte(c.Policy.Plugin), &config); err != nil {
			t.Fatalf("%s: %v", c.Name(), err)
		}
		got := config.Config
		if push, _, _ := strings.Cut(c.Name(), " "); config.Policy != "prefix_cache" ||
			got.Push != strings.TrimPrefix(push, blindName) || got.Cap != c.cap ||
			(got.Push != "") != (got.Queue.MaxWait == "30s") {
			t.Errorf("%s: %+v", c.Name(), config)
		}
		if metrics := got.Envoy["metrics_cluster"] != ""; metrics != (got.Push == "pending" &&
			!strings.HasSuffix(c.Name(), "no metrics")) {
			t.Errorf("%s: metrics are read: %v", c.Name(), metrics)
		}
		if strings.HasSuffix(c.Name(), "ahead 4") != (got.Ahead == 4) || strings.Contains(c.Name(), "skip") !=
			(got.Queue.Skip == 100) {
			t.Errorf("%s: %+v", c.Name(), got)
		}
		if secrets[got.Prefix.Secret] {
			t.Errorf("%s has a secret that another has", c.Name())
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
		settings:  settings{Settings: bench.Settings{Rounds: 2, Own: ownName, Workers: 2}},
		workloads: []workload{trees2(), trees24()}, contenders: contenders([]int{12, 24}, []int{1}),
	}
	for _, c := range rep.contenders {
		first, second := ran(500, 500, 500, 0.5), ran(1, 1, 121, 0.6)
		switch {
		case c.Name() == ownName:
			first, second = ran(1300, 40, 90, 0.9), ran(1, 1, 110, found)
		case c.Name() == blindName:
			first, second = ran(1000, 200, 900, 0.7), ran(1, 1, 130, 0.88)
		case c.cap == 12:
			first, second = ran(800, 50, 90, 0.8), ran(1, 1, 140, 0.9)
		case c.cap == 24:
			first, second = ran(1040, 60, 90, 0.8), ran(1, 1, 150, 0.9)
		case c.Added:
			first, second = ran(9000, 1, 1, 1), ran(9000, 1, 1, 1)
		}
		rep.Add("trees2", c.Name(), first...)
		rep.Add("trees24", c.Name(), second...)
	}
	return rep
}

func TestLine(t *testing.T) {
	l := madeUp(0.93).line()
	for name, want := range map[string]float64{
		"tokens_vs_blind": 1.3, "ttft_p90_vs_blind": 0.2, "tokens_vs_outstanding": 1.25, "trees24_cached": 0.93,
		"trees24_ttft_p99_vs_best": 110. / 121, "limit_tokens_vs_blind": 1, "limit_trees24_cached": 1,
	} {
		if got := l.Value(name); math.Abs(got-want) > 1e-9 || math.IsNaN(got) {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if l["target_met"] != true || l["best_cap"] != 24 || l["trees24_best"] != "round_robin" {
		t.Errorf("%+v", l)
	}
	if madeUp(0.91).line()["target_met"] != false {
		t.Error("the target is met with 0.91 cached")
	}
	part := madeUp(0.93)
	for _, c := range part.contenders {
		part.Drop("trees24", c.Name())
	}
	if l := part.line(); l["target_met"] != false || l["trees24_cached"] != nil || l["tokens_vs_blind"] == nil {
		t.Errorf("without trees24: %+v", l)
	}
}

func TestReport(t *testing.T) {
	rep := madeUp(0.93)
	rep.Notes = []string{"a note"}
	benchtest.Report(t, rep.configuration(), rep.table(), rep.line(),
		"1300 (1300..1300)", "trees24, "+ownName, `"push":"pending"`, "30 users", "a note",
		"6592 tokens of KV cache", `"tokens_vs_blind":1.3,`,
	)
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
			t.Errorf("%s: %v, %d turns: %+v", c.Name(), err, turns, r)
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
		server: vllmsim.Config{
			Config: enginesim.Config{MaxNumSeqs: 2, MaxQueued: -1, NumBlocks: 2048}, Tuning: vllmsim.NoLatency(),
		},
		lengths: lengths{system: 50, problem: 20, step: 5, each: 1, varying: []loadgen.Lengths{loadgen.Fixed(9)}},
	}
	s := settings{Settings: bench.Settings{Rounds: 1, Workers: 1}, caps: []int{2}}
	rep := &report{settings: s, workloads: []workload{w}}
	for _, c := range contenders(s.caps, nil) {
		if c.Name() == compare.LeastRequest.Name || c.Name() == blindName {
			rep.contenders = append(rep.contenders, c)
		}
	}
	if err := rep.play(t.Context(), &w); err != nil {
		t.Fatal(err)
	}
	for _, c := range rep.contenders {
		r := rep.Of(w.name, c.Name())[0]
		if r.Failed > 0 || r.Summary.OK < 15 || r.Summary.Tokens != r.Summary.OK*9 || r.Rate <= 0 ||
			r.Cached <= 0.3 || r.cpu <= 0 || r.cpu > 1 {
			t.Errorf("%s: %+v", c.Name(), r)
		}
	}
}
