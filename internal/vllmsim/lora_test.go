package vllmsim_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/internal/enginesim"
	"github.com/warmgate/warmgate/internal/vllmsim"
)

// TestAdaptersOverHTTP follows adapters from the model that a request names to the metrics and the state.
func TestAdaptersOverHTTP(t *testing.T) {
	s := start(t, vllmsim.Config{
		Model: "tiny", Aliases: []string{"small"}, Config: enginesim.Config{MaxNumSeqs: 8, MaxLoras: 1},
	})
	complete(t, s, textPath, `{"model":"tiny","prompt":"x","max_tokens":1}`)
	complete(t, s, textPath, `{"model":"small","prompt":"x","max_tokens":1}`)
	complete(t, s, textPath, `{"model":"q\"a","prompt":"x","max_tokens":2}`)
	complete(t, s, textPath, `{"prompt":"x","max_tokens":1}`)
	if got := s.State(); got.AdapterLoads != 1 || got.QueuedRequests != 0 {
		t.Errorf("%d loads, %d queued, want 1 and 0", got.AdapterLoads, got.QueuedRequests)
	}
	setTuning(t, s, endless())
	for _, adapter := range []string{"b", "c"} {
		background(t.Context(), s.URL()+textPath, `{"model":"`+adapter+`","prompt":"x","max_tokens":500}`)
		eventually(t, s, adapter+" is there", func(st vllmsim.State) bool {
			return st.Running+st.Waiting == 1+int(adapter[0]-'b')
		})
	}
	eventually(t, s, "the second adapter has to wait", func(st vllmsim.State) bool {
		return st.QueuedRequests == 1 && st.Queued == 1
	})
	text := must(t, http.MethodGet, s.URL()+"/metrics", "").body
	for _, want := range []string{
		"# HELP vllm:lora_requests_info Running stats on lora requests.\n# TYPE vllm:lora_requests_info gauge\n",
		`vllm:lora_requests_info{max_lora="1",running_lora_adapters="q\"a",waiting_lora_adapters="q\"a"} `,
		`vllm:lora_requests_info{max_lora="1",running_lora_adapters="b",waiting_lora_adapters="b"} `,
		`vllm:num_requests_waiting_by_reason{engine="0",model_name="tiny",reason="capacity"} 0.0` + "\n",
		`vllm:num_requests_waiting_by_reason{engine="0",model_name="tiny",reason="deferred"} 1.0` + "\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
	values := parseExposition(t, text).values
	of := func(names string) float64 {
		return values[`vllm:lora_requests_info{max_lora="1",running_lora_adapters="`+names+`",waiting_lora_adapters="`+names+`"}`]
	}
	if newest, older := of("b"), of(`q\"a`); newest <= older || older < 1.7e9 {
		t.Errorf("values %f and %f, want times of which the first is the newer", newest, older)
	}
	s.Reset()
	if text := must(t, http.MethodGet, s.URL()+"/metrics", "").body; strings.Contains(text, `q\"a`) {
		t.Error("a reset does not forget the adapters of before")
	}
}
