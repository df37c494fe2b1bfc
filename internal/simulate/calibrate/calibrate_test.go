package calibrate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/internal/enginesim"
)

// pageOf plays requests that come at random on an engine with the times, and returns its page.
func pageOf(t *testing.T, times enginesim.Times, every time.Duration, prompt, answer int) Page {
	t.Helper()
	e := enginesim.New(enginesim.Config{MaxNumSeqs: 64, MaxQueued: -1, NumBlocks: 8192, MaxModelLen: 1 << 16}, times)
	rng := rand.New(rand.NewPCG(uint64(prompt), uint64(every)))
	next, ends := time.Duration(0), time.Duration(0)
	for sent := 0; sent < 600 || ends > 0; {
		if sent < 600 && (ends == 0 || next <= ends) {
			n := prompt/2 + rng.IntN(prompt)
			q := &enginesim.Request{
				Prompt: enginesim.AppendText(nil, rng.Uint64(), n), Tokens: answer/2 + rng.IntN(answer),
			}
			if err := e.Add(q, next); err != nil {
				t.Fatal(err)
			}
			sent++
			if ends == 0 {
				ends = next + e.Begin(next)
			}
			next += time.Duration(rng.ExpFloat64() * float64(every))
			continue
		}
		e.Finish(ends)
		took := e.Begin(ends)
		if ends += took; took == 0 {
			next, ends = max(next, ends), 0
		}
	}
	s := e.Stats()
	p, err := Parse(fmt.Sprintf("# HELP of something\nvllm:iteration_tokens_total_count{engine=\"0\"} %d\n"+
		"vllm:generation_tokens_total %d\nvllm:prompt_tokens_total{a=\"b, c\"} %d 17\n"+
		"vllm:prefix_cache_hits_total %d\n"+
		"vllm:inter_token_latency_seconds_sum %g\nvllm:inter_token_latency_seconds_count %d\n"+
		"vllm:request_prefill_time_seconds_sum %g\nvllm:request_prefill_time_seconds_count %d\n"+
		"vllm:cache_config_info{block_size=\"16\",x=\"y\",num_gpu_blocks=\"8192\"} 1\n",
		s.Iteration.Total(), s.OutputTokens, s.PromptTokens, s.PrefixHits, s.InterToken.Sum, s.InterToken.Total(),
		s.PrefillTime.Sum, s.PrefillTime.Total()))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestFitFindsTheTimes(t *testing.T) {
	for _, want := range []enginesim.Times{
		enginesim.DefaultTimes(),
		{Speed: 1, PrefillOverheadMS: 10, PrefillTokenMS: 0.2, DecodeStepMS: 25, DecodeSeqMS: 0.2},
		{Speed: 1, PrefillOverheadMS: 2, PrefillTokenMS: 0.02, DecodeStepMS: 4, DecodeSeqMS: 0.3},
	} {
		var pages []Page
		for _, load := range []struct {
			every          time.Duration
			prompt, answer int
		}{
			{5 * time.Second, 200, 100},
			{5 * time.Second, 1500, 100},
			{300 * time.Millisecond, 300, 60},
			{200 * time.Millisecond, 100, 200},
			{time.Second, 1500, 100},
		} {
			pages = append(pages, pageOf(t, want, load.every, load.prompt, load.answer))
		}
		got, err := Fit(pages)
		if err != nil || got.Guessed || got.CacheTokens != 16*8192 {
			t.Fatalf("%+v, %v", got, err)
		}
		for _, c := range []struct {
			what              string
			got, want, within float64
		}{
			{"prompt", got.Times.PrefillOverheadMS, want.PrefillOverheadMS, 0.35},
			{"token", got.Times.PrefillTokenMS, want.PrefillTokenMS, 0.1},
			{"step", got.Times.DecodeStepMS, want.DecodeStepMS, 0.1},
			{"sequence", got.Times.DecodeSeqMS, want.DecodeSeqMS, 0.35},
		} {
			if math.Abs(c.got/c.want-1) > c.within {
				t.Errorf("%s: %.3f ms, want %.3f", c.what, c.got, c.want)
			}
		}
		if got.Error > 0.1 {
			t.Errorf("error %.3f", got.Error)
		}
	}
}

func TestParseRealPage(t *testing.T) {
	text, err := os.ReadFile("../../../metrics/testdata/vllm-0.32.0.prom")
	if err != nil {
		t.Fatal(err)
	}
	p, err := Parse(string(text))
	if err != nil || p.steps == 0 || p.prefills == 0 || p.CacheTokens == 0 {
		t.Fatalf("%+v, %v", p, err)
	}
	for _, pages := range [][]Page{{p}, {p, p, p}} {
		r, err := Fit(pages)
		if err != nil || !r.Guessed || r.Times.Validate() != nil {
			t.Errorf("%d times the same page: %+v, %v", len(pages), r, err)
		}
	}
	p.interTokenSum = 0
	if r, err := Fit([]Page{p}); err == nil {
		t.Errorf("a page without times: %+v", r)
	}
}

// llama.cpp does not count prompts. Times that are far from the defaults are fitted a little towards these.
func TestFitOfLlamaCpp(t *testing.T) {
	text, err := os.ReadFile("../../../metrics/testdata/llamacpp.prom")
	if err != nil {
		t.Fatal(err)
	}
	p, err := Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	r, err := Fit([]Page{p})
	step := r.Times.DecodeStepMS + r.Times.DecodeSeqMS
	if err != nil || !r.Guessed || math.Abs(r.Times.PrefillTokenMS/1.595-1) > 0.1 || math.Abs(step-11.07) > 0.1 {
		t.Errorf("%+v, %v", r, err)
	}
	busy, err := Parse(strings.NewReplacer("_slots_per_decode 1", "_slots_per_decode 4",
		"predicted_seconds_total 1.19561", "predicted_seconds_total 31.9").Replace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if r, err = Fit([]Page{p, busy}); err != nil || r.Error > 0.05 || r.Times.DecodeSeqMS < 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestRefusals(t *testing.T) {
	if _, err := Parse("sglang:token_usage 0.5\n"); err == nil {
		t.Error("a page of another engine was read")
	}
	for _, value := range []string{"many", "NaN", "+Inf", "-1"} {
		if _, err := Parse("vllm:generation_tokens_total " + value + "\n"); err == nil {
			t.Errorf("the value %s was read", value)
		}
	}
	if r, err := Fit([]Page{{CacheTokens: 5}}); err == nil || r.CacheTokens != 5 {
		t.Errorf("without requests: %+v, %v", r, err)
	}
}
