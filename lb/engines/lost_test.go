package engines

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmgate/warmgate/metrics"
)

// samplePage returns the sample of a page that is scraped at that time.
func samplePage(t testing.TB, page string, at time.Duration) (s Sample) {
	t.Helper()
	p, err := metrics.New(metrics.AnyEngine)
	if err != nil {
		t.Fatal(err)
	}
	p.Parse([]byte(page), &s.Snapshot)
	s.ScrapedAt = at
	return s
}

const (
	vllmRuns = "process_start_time_seconds 1.79530350397e+09\nvllm:prompt_tokens_total 500\n" +
		"vllm:generation_tokens_total 70\nvllm:prefix_cache_queries_total 500\nvllm:prefix_cache_hits_total 100\n" +
		`vllm:cache_config_info{num_gpu_blocks="16384"} 1` + "\n" +
		`vllm:engine_sleep_state{sleep_state="awake"} 1` + "\n"
	sglangRuns = "sglang:num_running_reqs 1\nsglang:prompt_tokens_total 500\n" +
		`sglang:cache_config_info{num_pages="500"} 1` + "\n"
	twoRanks = `vllm:prompt_tokens_total{engine="0"} 500` + "\n" + `vllm:prompt_tokens_total{engine="1"} 400` + "\n"
)

func TestWhatShowsALoss(t *testing.T) {
	started, counters := "its process has started anew", "its counters have started anew"
	for _, c := range []struct {
		name, then string
		changes    []string // old and new texts
		want       string
	}{
		{"nothing happens", vllmRuns, nil, ""},
		{"vLLM goes on", vllmRuns, []string{" 500", " 900", "hits_total 100", "hits_total 350"}, ""},
		{
			"vLLM restarts, and has counted more", vllmRuns,
			[]string{"1.79530350397", "1.79530360397", " 500", " 900"},
			started,
		},
		{"the start is computed from a clock that moves", vllmRuns, []string{"350397e+09", "350447e+09"}, ""},
		{"a process that began earlier", vllmRuns, []string{"1.79530350397", "1.79530250397"}, ""},
		{"another cache", vllmRuns, []string{"16384", "16200"}, "the size of its cache has changed"},
		{"the size is not known yet", vllmRuns, []string{"16384", "None"}, ""},
		{"sleep", vllmRuns, []string{`"awake"} 1`, `"awake"} 0`}, "it was put to sleep"},
		{"hits begin anew", vllmRuns, []string{"hits_total 100", "hits_total 0"}, counters},
		{"SGLang restarts", sglangRuns, []string{" 500", " 20"}, counters},
		{
			"SGLang restarts, and has counted nothing yet", sglangRuns,
			[]string{"sglang:prompt_tokens_total 500\n", ""},
			counters,
		},
		{"its page is cut", sglangRuns, []string{"sglang:prompt_tokens_total 500\n", "", "} 1\n", "} 1\nsg"}, ""},
		{"another page", sglangRuns, []string{"sglang:", "other:"}, ""},
		{"one rank of two restarts", twoRanks, []string{" 500", " 20", " 400", " 450"}, counters},
		{"TGI restarts", "tgi_queue_size 1\ntgi_request_count 50\n", []string{" 50", " 2"}, counters},
		{"llama.cpp restarts", "llamacpp:tokens_predicted_total 50\n", []string{" 50", " 2"}, counters},
		{
			"TensorRT-LLM restarts", "trtllm_num_requests_running 1\ntrtllm_request_success_total 50\n",
			[]string{" 50", " 2"},
			counters,
		},
	} {
		before := samplePage(t, c.then, time.Hour)
		after := samplePage(t, strings.NewReplacer(c.changes...).Replace(c.then), time.Hour+time.Second)
		if got := after.Follow(&before); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		lost := time.Duration(0)
		if c.want != "" {
			lost = after.ScrapedAt
		}
		if after.LostAt != lost {
			t.Errorf("%s: lost at %v, want %v", c.name, after.LostAt, lost)
		}
	}
	if s := samplePage(t, vllmRuns, time.Hour); s.Follow(&Sample{}) != "" {
		t.Error("an engine that is seen for the first time has lost its cache")
	}
}

// replica is one of the engines that answer for an endpoint.
type replica struct{ started, tokens int }

// Every restart is shown once, by the first page after it, if none came in the minute before; pages of several engines
// in turn show one loss at most, until one of them answers alone for a minute.
func TestLossesAreFollowed(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		engines := make([]replica, rapid.IntRange(1, 3).Draw(rt, "replicas"))
		now, clock := time.Hour, 1_795_000_000
		for i := range engines {
			engines[i] = replica{clock + 100*i, rapid.IntRange(0, 5000).Draw(rt, "tokens")}
		}
		var last Sample
		var restartedAt, lossAt time.Duration
		losses := 0
		for i := range rapid.IntRange(1, 200).Draw(rt, "scrapes") {
			now, clock = now+time.Second, clock+10
			e := &engines[i%len(engines)]
			restarts := i > 0 && rapid.IntRange(0, 40).Draw(rt, "restart") == 0
			if restarts {
				*e = replica{started: clock + 1000}
			}
			e.tokens += rapid.IntRange(0, 300).Draw(rt, "more")
			page := fmt.Sprintf("process_start_time_seconds %d\nvllm:prompt_tokens_total %d\n", e.started, e.tokens)
			next := samplePage(t, page, now)
			next.Follow(&last)
			found := next.LostAt > last.LostAt
			if found {
				if lossAt > 0 && now-lossAt < oneLoss {
					rt.Fatalf("lost at %v and at %v", lossAt, now)
				}
				lossAt, losses = now, losses+1
			}
			if len(engines) == 1 && found != (restarts && (restartedAt == 0 || now-restartedAt >= oneLoss)) {
				rt.Fatalf("restarted: %v, the latest before %v ago, found: %v", restarts, now-restartedAt, found)
			}
			if restarts {
				restartedAt = now
			}
			last = next
		}
		if len(engines) > 1 && losses > 1 {
			rt.Fatalf("%d losses shown by %d engines in turn", losses, len(engines))
		}
	})
}

// Updates tell of a loss, again and again, so that nobody misses it.
func TestUpdatesTellOfLosses(t *testing.T) {
	g := New()
	lost, kept := pageAt(t, 7, time.Hour, time.Hour, nil), pageAt(t, 8, time.Hour, time.Hour, nil)
	lost.LostAt = time.Minute
	g.Update(time.Hour, nil, map[string]Sample{"a": lost, "b": kept}) // nobody listens
	told := map[string]time.Duration{}
	g.OnLoss = func(addr string, at time.Duration) { told[addr] = at }
	g.Update(time.Hour, nil, map[string]Sample{"a": lost, "b": kept})
	if len(told) != 1 || told["a"] != time.Minute {
		t.Errorf("told of %v", told)
	}
}
