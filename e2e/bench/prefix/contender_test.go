package prefix

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/traffic"
	"github.com/warmgate/warmgate/internal/enginesim"
	"github.com/warmgate/warmgate/internal/vllmsim"
)

// TestTheGatewayObeys plays conversations through a real Envoy under the two policies that are edited into its files.
func TestTheGatewayObeys(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Envoy")
	}
	const servers = 3
	ctx := context.Background()
	stage, err := compare.NewStage(ctx, compare.Options{
		Workers: 2, First: compare.RoundRobin,
		Servers: slices.Repeat([]vllmsim.Config{
			{Config: enginesim.Config{MaxNumSeqs: 8, NumBlocks: 4096}, Tuning: vllmsim.NoLatency()},
		}, servers),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stage.Close(); err != nil {
			t.Error(err)
		}
	})
	// Twelve conversations that begin alike: only who follows the conversation keeps each at one server.
	w := workload{name: "test", n: 12, users: 4}
	var scripts []script
	r := random(1, "test")
	for i := range 12 {
		s := script{Session: string(rune('a' + i)), Turns: traffic.Conversation(r, nil, 3, 100, 20)}
		for k := range s.Turns {
			s.Turns[k].Think = 0
		}
		scripts = append(scripts, s)
	}
	shares := map[string]float64{}
	for _, c := range contenders() {
		switch c.Name() {
		case exactName:
			c = c.with(2)
		case ringHash.Name, affinityName, roundRobinName, lmetricName:
		default:
			continue
		}
		res, err := c.play(ctx, stage, &w, scripts)
		if err != nil {
			t.Fatalf("%s: %v", c.Name(), err)
		}
		if res.Summary.OK != 36 {
			t.Errorf("%s: %+v", c.Name(), res.Summary)
		}
		shares[strings.Fields(c.Name())[0]] = res.Cached
	}
	// Of three turns of about 100 + 20 tokens the last two begin with what the server has: at most 0.55 of all tokens,
	// and at least 0.45 but for blocks that are not full.
	for _, name := range []string{ringHash.Name, affinityName, exactName, lmetricName} {
		if shares[name] < 0.4 || shares[name] <= shares[roundRobinName] {
			t.Errorf("%s: %.2f cached, round_robin %.2f: the conversations did not stay at their servers",
				name, shares[name], shares[roundRobinName])
		}
	}
}

func TestContendersDescribeThemselves(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range contenders() {
		if d := c.Describe(); d == "" || seen[d] {
			t.Errorf("%s is described as %q", c.Name(), d)
		} else {
			seen[d] = true
		}
		if (c.choose != nil) != (c.Name() == affinityName || c.Name() == lmetricName) {
			t.Errorf("%s: the client chooses: %v", c.Name(), c.choose != nil)
		}
	}
}

func TestATraceThatIsMissingIsSkipped(t *testing.T) {
	for _, path := range []string{"", "/nowhere/trace.jsonl"} {
		rep := &report{settings: settings{trace: path, workloads: everything}}
		if err := rep.selectWorkloads(); err != nil || len(rep.workloads) != len(workloads()) || len(rep.Notes) != 3 {
			t.Errorf("%q: %d workloads, notes %q, %v", path, len(rep.workloads), rep.Notes, err)
		}
	}
	rep := &report{settings: settings{workloads: "sessions,shared"}}
	if err := rep.selectWorkloads(); err != nil || len(rep.workloads) != 2 || len(rep.Notes) != 0 {
		t.Errorf("%d workloads, notes %q, %v", len(rep.workloads), rep.Notes, err)
	}
	if err := (&report{settings: settings{workloads: "none"}}).selectWorkloads(); err == nil {
		t.Error("a workload that does not exist was taken")
	}
}

// TestUnavailableRouterIsLeftOut has no Python on the path.
func TestUnavailableRouterIsLeftOut(t *testing.T) {
	t.Setenv("PATH", "")
	rep := &report{settings: settings{policies: "round_robin,vllm-router"}}
	if err := rep.selectContenders(context.Background()); err != nil {
		t.Fatal(err)
	}
	if len(rep.contenders) != 1 || len(rep.Notes) != 1 || !strings.HasPrefix(rep.Notes[0], "vllm-router: left out") {
		t.Errorf("%v with notes %q", bench.Names(rep.contenders, contender.title), rep.Notes)
	}
}

// TestARouterAnswers runs the real thing, where it has been fetched already.
func TestARouterAnswers(t *testing.T) {
	if testing.Short() {
		t.Skip("starts routers")
	}
	ctx := context.Background()
	for _, c := range contenders() {
		if c.Router == nil {
			continue
		}
		t.Run(c.Name(), func(t *testing.T) {
			if err := c.Router.Install(ctx); err != nil {
				t.Skipf("not available on this machine: %v", err)
			}
			if !strings.Contains(c.Describe(), `"cache_threshold"`) {
				t.Errorf("the effective settings are not described: %s", c.Describe())
			}
			stage, err := compare.NewStage(ctx, compare.Options{
				Servers: []vllmsim.Config{{Tuning: vllmsim.NoLatency()}}, First: compare.RoundRobin,
			})
			if err != nil {
				t.Fatal(err)
			}
			defer stage.Close()
			scripts := []script{{Session: "x", Turns: traffic.Conversation(random(1, "x"), nil, 2, 50, 4)}}
			for _, w := range []workload{{users: 1}, {users: 1, plain: true}} {
				res, err := c.play(ctx, stage, &w, scripts)
				if err != nil || res.Summary.OK != 2 || res.uneven != 1 {
					t.Errorf("%s: %+v, %v", w.path(), res, err)
				}
			}
		})
	}
}
