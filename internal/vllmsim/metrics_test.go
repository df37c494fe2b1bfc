package vllmsim_test

import (
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/internal/enginesim"
	"github.com/warmgate/warmgate/internal/vllmsim"
)

// exposition is a parsed /metrics reply.
type exposition struct {
	meta   []string // HELP and TYPE lines, in order
	series []string // name{labels}, in order
	values map[string]float64
}

func parseExposition(t *testing.T, text string) exposition {
	t.Helper()
	e := exposition{values: map[string]float64{}}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "#") {
			e.meta = append(e.meta, line)
			continue
		}
		i := strings.LastIndexByte(line, ' ')
		v, err := strconv.ParseFloat(line[i+1:], 64)
		if err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		e.series = append(e.series, line[:i])
		e.values[line[:i]] = v
	}
	return e
}

// withoutVolatile leaves out the value of labels that describe the machine or configuration.
func withoutVolatile(series []string) []string {
	out := slices.Clone(series)
	for i, s := range out {
		if name, labels, _ := strings.Cut(s, "{"); name == "vllm:cache_config_info" {
			var keys []string
			for _, l := range strings.Split(strings.TrimSuffix(labels, "}"), `",`) {
				key, _, _ := strings.Cut(l, "=")
				keys = append(keys, key)
			}
			out[i] = name + " " + strings.Join(keys, " ")
		}
	}
	return out
}

// TestMetricsAreVLLMs compares the exposition with two of real servers that had served the same
// kinds of requests: every HELP and TYPE line and every series with its labels, in order.
func TestMetricsAreVLLMs(t *testing.T) {
	for _, c := range []struct {
		file    string
		maxLen  int
		traffic func(*testing.T, *vllmsim.Server)
	}{
		{"testdata/vllm-0.32.0.prom", 4096, func(t *testing.T, s *vllmsim.Server) {
			complete(t, s, textPath, `{"prompt":"x","max_tokens":2}`)
			complete(t, s, chatPath, chat("x", 2, ""))
		}},
		{"testdata/vllm-0.32.0-second.prom", 8192, func(t *testing.T, s *vllmsim.Server) {
			complete(t, s, textPath, `{"prompt":"x","max_tokens":2}`)
			setMode(t, s, vllmsim.ModeError)
			must(t, http.MethodPost, s.URL()+textPath, `{"prompt":"x"}`)
		}},
	} {
		t.Run(c.file, func(t *testing.T) {
			text, err := os.ReadFile(c.file)
			if err != nil {
				t.Fatal(err)
			}
			s := start(t, vllmsim.Config{Model: "tiny", Config: enginesim.Config{MaxModelLen: c.maxLen}})
			c.traffic(t, s)
			want := parseExposition(t, string(text))
			got := parseExposition(t, must(t, http.MethodGet, s.URL()+"/metrics", "").body)
			diff(t, "description", got.meta, want.meta)
			diff(t, "series", withoutVolatile(got.series), withoutVolatile(want.series))
		})
	}
}

func diff(t *testing.T, what string, got, want []string) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		g, w := "nothing", "nothing"
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			t.Errorf("%s %d:\n got %s\nwant %s", what, i, g, w)
			return
		}
	}
}

func TestMetricValues(t *testing.T) {
	s := start(t, vllmsim.Config{
		Model: "tiny", Config: enginesim.Config{MaxNumSeqs: 1, MaxModelLen: 8192, BlockSize: 16, NumBlocks: 512},
	})
	const text = `{"prompt":"` + "0123456789012345678901234567890123456789012345678901234567890123456789" + `","max_tokens":4}` // 18 tokens
	complete(t, s, textPath, text)
	complete(t, s, textPath, text)
	// One runs and one waits; then a step begins that shows both and outlasts the test.
	tuning := endless()
	tuning.DecodeStepMS = 20
	setTuning(t, s, tuning)
	background(t.Context(), s.URL()+textPath, `{"prompt":"a","max_tokens":8000}`)
	eventually(t, s, "the first one runs", func(st vllmsim.State) bool { return st.OutputTokens > 8 })
	background(t.Context(), s.URL()+textPath, `{"prompt":"b","max_tokens":8000}`)
	eventually(t, s, "the second one waits", func(st vllmsim.State) bool { return st.Waiting == 1 })
	tuning.DecodeStepMS = 1e6
	setTuning(t, s, tuning)
	const base = `{engine="0",model_name="tiny"}`
	var got map[string]float64
	var state vllmsim.State
	eventually(t, s, "the gauges show it", func(vllmsim.State) bool {
		got = parseExposition(t, must(t, http.MethodGet, s.URL()+"/metrics", "").body).values
		state = s.State() // a step may have ended in between
		return got["vllm:num_requests_waiting"+base] == 1 &&
			got["vllm:generation_tokens_total"+base] == float64(state.OutputTokens)
	})
	generated := float64(state.OutputTokens)
	for series, want := range map[string]float64{
		"vllm:num_requests_running" + base:                                                        1,
		"vllm:num_requests_waiting" + base:                                                        1,
		"vllm:kv_cache_usage_perc" + base:                                                         state.KVUsage,
		"vllm:prompt_tokens_total" + base:                                                         18 + 18 + 1,
		"vllm:generation_tokens_total" + base:                                                     generated,
		"vllm:prefix_cache_queries_total" + base:                                                  18 + 18 + 1,
		"vllm:prefix_cache_hits_total" + base:                                                     16,
		`vllm:num_requests_waiting_by_reason{engine="0",model_name="tiny",reason="capacity"}`:     1,
		`vllm:prompt_tokens_by_source_total{engine="0",model_name="tiny",source="local_compute"}`: 21,
		`vllm:request_success_total{engine="0",finished_reason="length",model_name="tiny"}`:       2,
		`vllm:request_prompt_tokens_bucket{engine="0",le="10.0",model_name="tiny"}`:               0,
		`vllm:request_prompt_tokens_bucket{engine="0",le="20.0",model_name="tiny"}`:               2,
		"vllm:request_prompt_tokens_sum" + base:                                                   36,
		"vllm:request_prefill_kv_computed_tokens_sum" + base:                                      20,
		"vllm:time_to_first_token_seconds_count" + base:                                           3,
		"vllm:inter_token_latency_seconds_count" + base:                                           generated - 3,
		"vllm:e2e_request_latency_seconds_count" + base:                                           2,
		`http_requests_total{handler="/v1/completions",method="POST",status="2xx"}`:               2,
		"http_request_size_bytes_sum{handler=\"/v1/completions\"}": 2 *
			float64(len(text)),
	} {
		if v, ok := got[series]; !ok || v != want {
			t.Errorf("%s = %v, want %v", series, v, want)
		}
	}
}
