package prefix

import (
	"errors"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/bench/router"
	"github.com/warmgate/warmgate/e2e/bench/scripted"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/e2e/traffic"
	"github.com/warmgate/warmgate/internal/vllmsim"
	"github.com/warmgate/warmgate/internal/vllmsim/vllmsimtest"
	"github.com/warmgate/warmgate/lb"
)

// exactStage returns servers without a gateway, of which the second has computed the prompt, and the prompt's next
// turn.
func exactStage(t *testing.T) (*compare.Stage, *scripted.Question) {
	t.Helper()
	stage := &compare.Stage{}
	for range 3 {
		stage.Servers = append(stage.Servers, vllmsimtest.StartT(t, vllmsim.Config{Tuning: vllmsim.NoLatency()}))
	}
	p := scripted.Player{}
	messages := []loadgen.Message{traffic.User(strings.Repeat("abc ", 200))}
	q := p.Question(&script{}, &turn{Answer: 10}, messages)
	res, err := http.Post(stage.Servers[1].URL()+compare.Path, "application/json", strings.NewReader(string(q.Body)))
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%+v, %v", res, err)
	}
	_, err = io.Copy(io.Discard, res.Body) // its end: the prompt is cached by then
	if err := errors.Join(err, res.Body.Close()); err != nil {
		t.Fatal(err)
	}
	next := p.Question(&script{}, &turn{Answer: 12}, append(messages, traffic.User("more")))
	return stage, &next
}

// TestExactWeighsCacheAgainstLoad has 192 tokens of 208 cached at the second server: it may have up to credit times as
// many tokens in flight, but not more.
func TestExactWeighsCacheAgainstLoad(t *testing.T) {
	stage, q := exactStage(t)
	for _, credit := range []float64{0.5, 2, 8} {
		for _, more := range []int64{-10, 10} {
			e := newExact(stage, &workload{}, credit)
			e.loads[1].Tokens = int64(192*credit) + more
			if server, _ := e.choose(q); (server == 1) != (more < 0) {
				t.Errorf("with credit %v and %d tokens in flight there, server %d", credit, e.loads[1].Tokens, server)
			}
		}
	}
}

// What only the servers' own, shorter blocks end is worth a part of what the longer one is.
func TestFinerWorth(t *testing.T) {
	p := &vllmsim.Prompt{BlockTokens: 16, Chain: make([]uint64, 2*exactBlock+3)}
	for i := range p.Chain {
		p.Chain[i] = uint64(i)
	}
	worth := finer(p, []uint32{64, 100})
	for block, want := range map[int]uint32{0: 8, 6: 56, 7: 64, 8: 68, 15: 100, 16: 116, 18: 148} {
		if worth[block] != want {
			t.Errorf("block %d: %d, want %d of %v", block, worth[block], want, worth)
		}
	}
	coarse, fine := blocksOf(p, exactBlock), blocksOf(p, 1)
	if len(coarse) != 2 || len(fine) != len(p.Chain) || coarse[1] != fine[15] || fine[15].End != 256 {
		t.Errorf("%v of %v", coarse, fine)
	}
}

func TestExactForgetsWhatHasEnded(t *testing.T) {
	stage, q := exactStage(t)
	e := newExact(stage, &workload{}, 1)
	for range 100 {
		server, u := e.choose(q)
		if server != 1 || e.loads[1].Requests != 1 || e.loads[1].Tokens < 10 || e.loads[1].Tokens > 40 {
			t.Fatalf("server %d, loads %v", server, e.loads)
		}
		u.First()
		if e.loads[1] != (lb.Load{Requests: 1, Tokens: 12}) || len(e.computing[1]) > 0 {
			t.Fatalf("what is computed still counts: %v", e.loads)
		}
		u.Done()
	}
	for _, s := range stage.Servers {
		s.Reset()
	}
	server, _ := e.choose(q)
	if load := e.loads[server]; load.Tokens < 200 || load.Requests != 1 {
		t.Errorf("with empty caches %v is counted", load)
	}
	e = newExact(stage, &workload{}, 4)
	before, _ := e.choose(q)
	if server, _ = e.choose(q); server != before || e.loads[server].Tokens > 300 {
		t.Errorf("what server %d is about to compute is not known: %v", before, e.loads)
	}
}

func TestTheBestCreditCounts(t *testing.T) {
	var exactOne contender
	for _, c := range contenders() {
		if c.Name() == exactName {
			exactOne = c
		}
	}
	rep := &report{
		settings: settings{credits: []float64{1, 2, 4}},
		contenders: []contender{
			{Contender: router.By(compare.RoundRobin)}, exactOne, {Contender: router.By(compare.PrefixCache)},
		},
		workloads: []workload{{name: "x"}},
	}
	played := rep.played()
	got := strings.Join(bench.Names(played, contender.title), ", ")
	if got != "round_robin, exact credit 1, exact credit 2, exact credit 4, prefix_cache" {
		t.Fatalf("played: %s", got)
	}
	var of bench.Runs[result]
	for i, ttft := range []float64{50, 30, 20, 40, 60} {
		fast := figures{ttft: ttft, p99: 1, cached: ttft / 100}
		of.Add("x", played[i].Name(), fast.result(), fast.result())
	}
	rep.keep("x", played, of)
	for name, want := range map[string]float64{roundRobinName: 0.5, exactName: 0.2, ownName: 0.6} {
		if got := rep.Of("x", name); len(got) != 2 || got[0].Cached != want {
			t.Errorf("%s: %+v, want %v cached", name, got, want)
		}
	}
	want := "exact on x: 20.0 ms is the best mean TTFT; by credit, with the cached share: " +
		"1: 30.0 (30.0..30.0) ms, 0.300 (0.300..0.300); 2: 20.0"
	if len(rep.sweeps) != 1 || !strings.HasPrefix(rep.sweeps[0], want) {
		t.Errorf("%q", rep.sweeps)
	}
	c := rep.cells()["x"]
	near := func(what string, got, want float64) {
		if math.Abs(got-want) > 1e-9 {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	near("cached over exact's", c.CachedVsExact.Median, 3)
	near("computed over exact's", c.ComputedVsExact.Median, 0.5)
	near("TTFT over exact's", c.TTFTVsExact.Median, 3)
	near("TTFT over the best of the others", c.TTFTVsBest, 1.2) // that of round_robin, not exact's
	if c.CachedVsSGLang != nil {
		t.Error("a comparison with a router that was not played")
	}
	if row := rep.table().Rows[1]; row[0] != "x, exact" || row[len(row)-2] != "1.000 (1.000..1.000)" {
		t.Errorf("%q", row)
	}
}

func TestWorstOfManyWorkloads(t *testing.T) {
	rep := madeUp(figures{40, 100, 0.9, 1.1})
	rep.Of("agents64", ownName)[0].Cached, rep.Of("agents64", ownName)[1].Cached = 0.81, 0.81
	rep.Of("forty", ownName)[0].Cached, rep.Of("forty", ownName)[1].Cached = 0.72, 0.72
	slow := figures{ttft: 90, p99: 190, cached: 0.9, uneven: 1.25}.result()
	copy(rep.Of("slots", ownName), []result{slow, slow})
	worst := worstOf(rep.cells())
	for name, want := range map[string]float64{
		"agents_cached_vs_exact": 0.9, "agents_computed_vs_exact": 1.9, "cached_vs_exact_min": 0.8,
		"max_over_mean_max": 1.25,
		"ttft_vs_best_max":  90.0 / 150, "ttft_p99_vs_best_max": 190.0 / 300,
	} {
		if got := worst.Value(name); !(math.Abs(got-want) < 1e-9) {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if _, ok := worst["trace_cached_vs_sglang"]; ok {
		t.Error("a comparison with a router that was not played")
	}
}

func TestLoadsMakeWorkloads(t *testing.T) {
	s := settings{workloads: "forty,agents16x4", loads: []float64{0.5, 1.5}, Settings: bench.Settings{Seed: 1}}
	rep := &report{settings: s}
	if err := rep.selectWorkloads(); err != nil {
		t.Fatal(err)
	}
	got := strings.Join(bench.Names(rep.workloads, workload.title), " ")
	if got != "forty@0.5 forty@1.5 agents16x4@0.5 agents16x4@1.5" {
		t.Errorf("%s", got)
	}
	for _, w := range rep.workloads {
		if n := len(w.scripts(1)); n != w.n || n < w.users || w.kind+"@" != w.name[:len(w.kind)+1] {
			t.Errorf("%s: %d scripts for %d users, of %s", w.name, n, w.users, w.kind)
		}
	}
	if rep.workloads[0].users >= rep.workloads[1].users {
		t.Error("the load plays no part")
	}
}

func TestInRedis(t *testing.T) {
	rep := &report{settings: settings{policies: "round_robin,prefix_cache,exact", redis: true}}
	if err := rep.selectContenders(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := strings.Join(bench.Names(rep.contenders, contender.title), " ")
	if got != "round_robin prefix_cache exact prefix_cache_redis" {
		t.Fatalf("%s", got)
	}
	twin := rep.contenders[3]
	text := twin.Policy.Plugin
	if !strings.Contains(text, `"redis_cluster":"warmgate-redis"`) || rep.contenders[1].Policy.Plugin != compare.PrefixCache.Plugin {
		t.Errorf("%s", text)
	}
	server := redisserver.StartT(t, redisserver.Options{})
	if err := twin.counted(server); err == nil {
		t.Error("an empty Redis passes as one that is used")
	}
	if _, err := server.Do("SET", "x", 1); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(twin.counted(server), twin.counted(nil), rep.contenders[1].counted(nil)); err != nil {
		t.Error(err)
	}
}

var (
	sys      = traffic.System("be brief")
	first    = traffic.User("first")
	answered = traffic.Assistant("well")
	second   = traffic.User("second")
)

func TestBlockKeysOfALongerConversationExtendThoseBefore(t *testing.T) {
	short := blockKeys([]loadgen.Message{sys, first})
	long := blockKeys([]loadgen.Message{sys, first, answered, second})
	if len(short) != 1 || len(long) != 2 || short[0] != long[0] || long[0] == long[1] {
		t.Errorf("%x, then %x", short, long)
	}
	other := blockKeys([]loadgen.Message{traffic.System("be verbose"), first, answered, second})
	if other[0] == long[0] || other[1] == long[1] {
		t.Error("another system prompt has keys in common")
	}
	if open := blockKeys([]loadgen.Message{sys, first, answered}); len(open) != 2 {
		t.Errorf("what comes behind the last user message makes %d blocks, want 2", len(open))
	}
	if got := blockKeys(nil); len(got) != 0 {
		t.Errorf("no messages have keys %x", got)
	}
}

// TestBlockKeysHaveTheDefectsOfXOR shows that what is compared is the scheme as it is published: it knows no order, and
// a block that comes twice takes itself back.
func TestBlockKeysHaveTheDefectsOfXOR(t *testing.T) {
	ab := blockKeys([]loadgen.Message{first, second})
	ba := blockKeys([]loadgen.Message{second, first})
	if ab[1] != ba[1] {
		t.Error("the order of blocks matters")
	}
	twice := blockKeys([]loadgen.Message{first, first})
	if twice[1] != (blockKey{}) {
		t.Errorf("a block and itself make %x", twice[1])
	}
}

func TestAffinityIgnoresLoad(t *testing.T) {
	x := newBlockXOR(3)
	prompt := []loadgen.Message{sys, first}
	home, _ := x.choose(prompt)
	for range 20 {
		if at, _ := x.choose(prompt); at != home {
			t.Fatalf("a known prompt went to %d instead of %d", at, home)
		}
	}
	if at, _ := x.choose(append(slices.Clone(prompt), answered, second)); at != home {
		t.Errorf("its next turn went to %d instead of %d", at, home)
	}
	if at, _ := x.choose([]loadgen.Message{traffic.User("new")}); at == home {
		t.Error("a new prompt went to the busiest server")
	}
}

func TestUnknownPromptsGoToTheLeastBusy(t *testing.T) {
	x := newBlockXOR(3)
	var dones []func()
	seen := map[int]int{}
	for i := range 6 {
		at, done := x.choose([]loadgen.Message{traffic.User(string(rune('a' + i)))})
		seen[at]++
		dones = append(dones, done)
	}
	if len(seen) != 3 || seen[0] != 2 || seen[1] != 2 || seen[2] != 2 {
		t.Errorf("six prompts were spread as %v", seen)
	}
	free, _ := x.choose([]loadgen.Message{traffic.User("a")}) // known: where the first went
	dones[0]()
	for range 2 {
		x.inflight[free]-- // as if its requests had ended
	}
	if at, _ := x.choose([]loadgen.Message{traffic.User("z")}); at != free {
		t.Errorf("went to %d although %d has nothing to do", at, free)
	}
}
