package compare

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/internal/enginesim"
	"github.com/warmgate/warmgate/internal/vllmsim"
)

// TestSwitchKeepsTraffic plays traffic under one native policy, switches to the other with requests under way, and
// checks that none failed and that the counts of a play are its own.
func TestSwitchKeepsTraffic(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Envoy")
	}
	ctx := context.Background()
	s := newStage(t)
	pid := s.Gateway.PID()
	reqs, err := loadgen.Workload{
		Seed: 1, Count: 300, Rate: 300, Stream: true, Prompt: loadgen.Fixed(20),
		Output: loadgen.Fixed(4),
	}.Requests()
	if err != nil {
		t.Fatal(err)
	}
	first := s.Play(ctx, RoundRobin, reqs[:30], 0)
	if first.Summary.OK != 30 || len(first.Summary.Endpoints) != 3 {
		t.Fatalf("round robin: %+v", first.Summary)
	}
	for id, n := range first.Summary.Endpoints {
		if n < 8 || n > 12 {
			t.Errorf("round robin sent %d of 30 requests to server %s, want about 10", n, id)
		}
	}
	switched := make(chan error, 1)
	go func() { switched <- s.Switch(ctx, LeastRequest) }()
	second := s.Play(ctx, LeastRequest, reqs, 0)
	if err := <-switched; err != nil {
		t.Fatal(err)
	}
	if second.Summary.OK != len(reqs) {
		t.Errorf("during the switch: %+v", second.Summary)
	}
	if err := s.Switch(ctx, FullScan); err != nil {
		t.Fatal(err)
	}
	third := s.Play(ctx, FullScan, reqs[:30], 0)
	if third.Summary.OK != 30 {
		t.Errorf("after the second switch: %+v", third.Summary)
	}
	text, err := os.ReadFile(filepath.Join(s.Gateway.Dir(), "clusters.yaml"))
	if err != nil || !strings.Contains(string(text), "FULL_SCAN") {
		t.Errorf("the full scan is not in the cluster: %v\n%s", err, text)
	}
	if s.Gateway.PID() != pid {
		t.Error("the gateway was restarted")
	}
	clusters, err := s.Gateway.Stats(ctx, `^cluster_manager\.cluster_(updated|modified)`)
	if err != nil || len(clusters) == 0 {
		t.Errorf("no trace of a changed cluster: %v, %v", clusters, err)
	}
}

// TestHerd has a herd come through two gateways whose workers take the servers in turn, each for itself.
func TestHerd(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Envoy")
	}
	const n, gateways, workers = 120, 2, 2
	s, err := NewStage(context.Background(), Options{
		Gateways: gateways, Workers: workers, First: RoundRobin,
		Servers: Servers(vllmsim.Config{
			Config: enginesim.Config{MaxNumSeqs: 2, MaxQueued: -1}, Tuning: vllmsim.DefaultTuning(),
		}, 1, 1, 1),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	apart, err := s.Herd(context.Background(), n)
	if err != nil || apart > gateways*workers {
		t.Errorf("%d apart, %v", apart, err)
	}
	if left := s.Inflight(); slices.Max(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

// TestWarmUpIsNotMeasured plays requests on unequal servers of which the first half only warms up.
func TestWarmUpIsNotMeasured(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Envoy")
	}
	one := vllmsim.Config{Tuning: vllmsim.NoLatency()}
	one.MaxNumSeqs, one.MaxQueued, one.MaxLoras = 1, -1, 1
	many := one
	many.MaxNumSeqs, many.MaxLoras, many.Tuning.Speed = 9, 0, 2
	all := 0
	s, err := NewStage(context.Background(), Options{
		Workers: 1, Servers: []vllmsim.Config{one, many}, First: RoundRobin,
		Seen: func(loadgen.Sample) { all++ },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if a, b := s.Servers[0].Tuning().Speed, s.Servers[1].Tuning().Speed; a != 1 || b != 2 ||
		!slices.Equal(s.slots, []int{1, 9}) {
		t.Errorf("speeds %v and %v, slots %v", a, b, s.slots)
	}
	reqs, err := loadgen.Workload{
		Count: 40, Rate: 40, Arrivals: loadgen.Constant, Stream: true, Prompt: loadgen.Fixed(20),
		Output: loadgen.Fixed(4),
		Models: []loadgen.Model{{Name: "a", Weight: 1}, {Name: "b", Weight: 1}},
	}.Requests()
	if err != nil {
		t.Fatal(err)
	}
	r := s.Play(context.Background(), RoundRobin, reqs, 500*time.Millisecond)
	if all != 40 || r.Summary.OK != 20 || len(r.Samples) != 20 || r.Placement.Requests != 20 {
		t.Errorf("%d of %d requests are measured, %d placed: %+v", len(r.Samples), all, r.Placement.Requests, r.Summary)
	}
	if r.Engines.Loads < 1 || r.Engines.Loads > 11 || r.Fleet.Seconds > 5 {
		t.Errorf("%+v in %v s; the first server gets ten of these requests and has room for one adapter", r.Engines,
			r.Fleet.Seconds)
	}
	if whole := s.Play(context.Background(), RoundRobin, reqs[:10], 0); whole.Summary.OK != 10 {
		t.Errorf("without a warm-up: %+v", whole.Summary)
	}
}

// newStage returns a stage of three fast servers under round robin, closed when the test ends.
func newStage(t *testing.T) *Stage {
	t.Helper()
	s, err := NewStage(context.Background(), Options{
		Workers: 2, First: RoundRobin,
		Servers: Servers(vllmsim.Config{Config: enginesim.Config{MaxNumSeqs: 2}, Tuning: vllmsim.NoLatency()}, 1, 2, 4),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestPolicyDescribesItself(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range []Policy{RoundRobin, LeastRequest, FullScan, Warmgate, WarmgateTokens} {
		if d := p.Describe(); d == "" || seen[d] {
			t.Errorf("%s is described as %q", p.Name, d)
		} else {
			seen[d] = true
		}
	}
	if (RoundRobin.Plugin == "") != (RoundRobin.Cluster != harness.Warmgate) {
		t.Error("a native policy must run without the plugin")
	}
}

func TestVariant(t *testing.T) {
	p, err := Variant(`more={"lb_policy":"x=y"}`)
	if err != nil || p.Name != "more" || p.Cluster != harness.Warmgate || p.Describe() != `Warmgate {"lb_policy":"x=y"}` {
		t.Errorf("%+v, %v", p, err)
	}
	for _, bad := range []string{"", "more", "more=", "={}", "more={"} {
		if _, err := Variant(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestEditsAreParsedWhenThePolicyIsUsed(t *testing.T) {
	s := &Stage{}
	if err := s.prepare(Policy{Name: "invalid", Edits: "a: [b"}); err == nil {
		t.Error("broken YAML was taken")
	}
	if err := s.prepare(FullScan); err != nil {
		t.Fatal(err)
	}
	doc := new(yaml.Node)
	if err := yaml.Unmarshal([]byte("resources: [{name: llm}]"), doc); err != nil {
		t.Fatal(err)
	}
	if err := s.edit("endpoints.yaml", doc); err != nil {
		t.Errorf("a file without edits: %v", err)
	}
	if err := s.edit("clusters.yaml", doc); err == nil {
		t.Error("an edit of what is not there was taken")
	}
}

func TestSteered(t *testing.T) {
	chosen := loadgen.Sample{Status: 200, Header: http.Header{"X-Warmgate-Host": {"127.0.0.1:1"}}}
	fallen := loadgen.Sample{Status: 200, Header: http.Header{"X-Warmgate-Reason": {"config_invalid"}}}
	failed := loadgen.Sample{Error: loadgen.ErrTimeout}
	some := []loadgen.Sample{failed, failed, failed, fallen}
	for range 9 {
		some = append(some, chosen)
	}
	if err := Warmgate.Steered(some); err != nil {
		t.Error(err)
	}
	err := Warmgate.Steered(append(some, fallen))
	if err == nil || !strings.Contains(err.Error(), "2 of 11 answers, reasons map[config_invalid:2]") {
		t.Errorf("two of eleven: %v", err)
	}
	if err := LeastRequest.Steered([]loadgen.Sample{fallen}); err != nil {
		t.Errorf("a native policy: %v", err)
	}
	if err := Warmgate.Steered(nil); err != nil {
		t.Errorf("without any answer: %v", err)
	}
}
