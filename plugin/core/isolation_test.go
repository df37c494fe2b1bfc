package core

import (
	"fmt"
	"strings"
	"testing"
)

// Prompts that engines keep apart match nothing of each other, and all of themselves, whether a member or the path
// tells them apart.
func TestPromptsThatEnginesKeepApart(t *testing.T) {
	long := seededWords(7, 1500)
	body := func(format string) string { return fmt.Sprintf(format, long) }
	for name, test := range map[string]struct{ path, body string }{
		"extra key":       {"/v1/chat/completions", body(`{"model":"m","extra_key":"X","messages":[{"role":"user","content":%q}]}`)},
		"Gemini":          {"/v1beta/models/X:generateContent", body(`{"contents":[{"role":"user","parts":[{"text":%q}]}]}`)},
		"Triton":          {"/v2/models/X/generate", body(`{"text_input":%q}`)},
		"Triton, version": {"/v2/models/a/versions/X/generate", body(`{"text_input":%q}`)},
		"Azure":           {"/openai/deployments/X/chat/completions?api-version=1", body(`{"messages":[{"role":"user","content":%q}]}`)},
		"TGI, adapter":    {"/generate", body(`{"inputs":%q,"parameters":{"adapter_id":"X"}}`)},
		"llama.cpp, LoRA": {"/completion", body(`{"prompt":%q,"lora":[{"id":X,"scale":1.0}]}`)},
		"SGLang, image":   {"/generate", body(`{"text":%q,"image_data":"` + strings.Repeat("aBcd", 3000) + `X"}`)},
		"Ollama, images":  {"/api/generate", body(`{"model":"m","prompt":%q,"images":["` + strings.Repeat("aBcd", 3000) + `X"]}`)},
		"vLLM, image":     {"/inference/v1/generate", body(`{"model":"m","prompt":%q,"multi_modal_data":{"image":"` + strings.Repeat("aBcd", 3000) + `X"}}`)},
	} {
		d := startFake(t, 1, 4, renderedConfig)
		with := func(x string) (string, string) {
			return strings.Replace(test.path, "X", x, 1), strings.Replace(test.body, "X", x, 1)
		}
		for _, ask := range []struct {
			x    string
			want float64
		}{{"1", 0}, {"2", 0}, {"1", 1}, {"2", 1}} {
			path, text := with(ask.x)
			if match, _ := d.askFor(path, text, 4000, 0.9); match < ask.want-0.1 || match > ask.want {
				t.Errorf("%s: %.2f of %s are matched, want %.0f", name, match, ask.x, ask.want)
			}
		}
	}
	d := startFake(t, 1, 4, renderedConfig)
	turn := body(`{"contents":[{"role":"user","parts":[{"text":%q}]}]}`)
	d.askFor("/v1beta/models/a:generateContent", turn, 4000, 0)
	if match, _ := d.askFor("/v1beta/models/a:streamGenerateContent?alt=sse", turn, 4000, 0.9); match < 0.9 {
		t.Errorf("%.2f are matched of what another call of the model has cached", match)
	}
}
