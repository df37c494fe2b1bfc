package prompt

import (
	"strings"
	"testing"
)

// knownCalls are calls, and what they are.
var knownCalls = []struct {
	method, path string
	bodiless     bool
	want         Call
}{
	{"POST", "/v1/chat/completions", false, Computes},
	{"POST", "/v1/completions", false, Computes},
	{"POST", "/v1/responses", false, Computes},
	{"POST", "/v1/messages?beta=true", false, Computes},
	{"POST", "/v1/embeddings", false, Computes},
	{"POST", "/v1beta/models/m:generateContent", false, Computes},
	{"POST", "/api/chat", false, Computes},
	{"POST", "/generate", false, Computes},
	{"POST", "/v1/chat/completions", true, Computes},
	{"GET", "/v1/chat/completions", true, Computes},
	{"GET", "/v1/responses?limit=2", true, Idle},
	{"GET", "/v1/messages", true, Computes},
	{"DELETE", "/v1/chat/completions", true, Computes},
	{"OPTIONS", "/v1/chat/completions", true, Idle},
	{"OPTIONS", "/v1/messages", true, Idle},
	{"OPTIONS", "/v1/messages/count_tokens", true, Idle},
	{"OPTIONS", "/v1/files", true, Idle},
	{"OPTIONS", "/v1/chat/completions", false, Computes},
	{"HEAD", "/v1/chat/completions", true, Idle},
	{"HEAD", "/generate", true, Idle},
	{"HEAD", "/generate", false, Computes},
	{"HEAD", "/v1/files", true, Idle},
	{"POST", "/pause?mode=abort", true, Idle},
	{"POST", "/pause_generation", false, Idle},
	{"POST", "/update_weights_from_disk", false, Idle},
	{"POST", "/models/load", false, Idle},
	{"POST", "/v1/fine_tuning/jobs", false, Idle},
	{"POST", "/v1/fine_tuning/jobs/ftjob-1/cancel", true, Idle},
	{"POST", "/v1/projects/p/locations/l/endpoints/e:countTokens", false, Counts},
	{"POST", "/v1/publishers/anthropic/models/count-tokens:rawPredict", false, Idle},
	{"POST", "/v1/publishers/anthropic/models/claude:rawPredict", false, Unlisted},
	{"GET", "/health_generate", true, Computes},
	{"POST", "/v1/messages/count_tokens", false, Counts},
	{"POST", "/proxy/v1/messages/count_tokens?beta=true", false, Counts},
	{"POST", "/tokenize", false, Counts},
	{"POST", "/tokenize/", false, Counts},
	{"POST", "/v1/detokenize", false, Counts},
	{"POST", "/apply-template", false, Counts},
	{"POST", "/v1/chat/completions/render", false, Counts},
	{"POST", "/v1/responses/input_tokens", false, Counts},
	{"POST", "/v1/chat/completions/input_tokens", false, Counts},
	{"POST", "/v1beta/models/gemini-pro:countTokens", false, Counts},
	{"GET", "/v1/models", true, Idle},
	{"HEAD", "/v1/models", true, Idle},
	{"GET", "/openai/v1/models/m", true, Idle},
	{"GET", "/health", true, Idle},
	{"POST", "/v1/files", false, Idle},
	{"GET", "/v1/batches/b1", true, Idle},
	{"POST", "/v1/responses/r1/cancel", true, Idle},
	{"DELETE", "/v1/responses/r1", true, Idle},
	{"GET", "/v1/responses/r1?stream=true", true, Idle},
	{"GET", "/index.html", true, Bodiless},
	{"DELETE", "/anything", true, Bodiless},
	{"OPTIONS", "/v1/anything", true, Bodiless},
	{"GET", "/search", false, Unlisted}, // with a body: who knows
	{"POST", "/anything", true, Unlisted},
	{"GET", "", true, Bodiless},
	{"GET", "models", true, Bodiless}, // no path
	{"POST", "tokenize", false, Unlisted},
	{"POST", "/xtokenize", false, Unlisted},
	{"POST", "/uploads//x", false, Unlisted},
}

func TestCallsByMethodAndPath(t *testing.T) {
	for _, c := range knownCalls {
		if got := CallOf(c.method, c.path, c.bodiless); got != c.want {
			t.Errorf("%s %s (bodiless %v) is %v, want %v", c.method, c.path, c.bodiless, got, c.want)
		}
	}
}

// Each rule decides about the path that it names: none stands behind another that takes its calls.
func TestNoRuleOfCallsIsHidden(t *testing.T) {
	for _, r := range callRules {
		method := map[byte]string{0: "POST", 'P': "POST", 'G': "GET", 'D': "DELETE"}[r.method]
		if got := CallOf(method, "/v1"+strings.ReplaceAll(r.path, "*", "x"), false); got != r.what {
			t.Errorf("%s %s is %v, want %v", method, r.path, got, r.what)
		}
	}
}

func TestAPIPaths(t *testing.T) {
	for what, paths := range map[Call]map[string]string{
		Counts: {
			"/v1/messages/count_tokens?beta=true": "/v1/messages",
			"/v1/chat/completions/render/":        "/v1/chat/completions",
			"/v1/tokenize":                        "/v1",
			"/detokenize":                         "",
			"/v1beta/models/m:countTokens":        "/v1beta/models/m",
		},
		Computes: {
			"/v1/messages?beta=true":                     "/v1/messages",
			"/v1beta/models/m:streamGenerateContent?a=b": "/v1beta/models/m",
			"/model/m:1/invoke":                          "/model/m:1/invoke",
			"":                                           "",
		},
	} {
		for path, want := range paths {
			if got := APIPath(path, what); got != want {
				t.Errorf("%q is of %q, want %q", path, got, want)
			}
		}
	}
}

func FuzzCallOf(f *testing.F) {
	for _, r := range callRules {
		f.Add("GET", r.path, true)
	}
	f.Fuzz(func(t *testing.T, method, path string, bodiless bool) {
		got := CallOf(method, path, bodiless)
		if got == Bodiless && !bodiless {
			t.Error("a call with a body is taken for one without")
		}
		if CallOf(method, path+"?q=/tokenize", bodiless) != got && !strings.Contains(path, "?") {
			t.Error("a query changes what a call is")
		}
	})
}

func BenchmarkCallOf(b *testing.B) {
	for b.Loop() {
		CallOf("POST", "/v1/embeddings", false)
	}
}

func TestHeldIDs(t *testing.T) {
	for path, want := range map[string]string{
		"/v1/responses/resp_1":                         "resp_1",
		"/v1/responses/resp_1/input_items?after=item2": "resp_1",
		"/openai/v1/files/file-9/content":              "file-9",
		"/v1/batches/batch_3/cancel/":                  "batch_3",
		"/v1/messages/batches/msgbatch_01/results":     "msgbatch_01",
		"/v1/responses/input_tokens":                   "",
		"/v1/responses":                                "",
		"/v1/responses/":                               "",
		"/batches/v1/chat/completions":                 "",
		"/files/v2/responses":                          "",
		"/files/v2/responses/resp_1":                   "resp_1",
		"/v1/chat/completions":                         "",
		"/files":                                       "",
		"":                                             "",
	} {
		if got := HeldInPath(path); got != want {
			t.Errorf("%q has the id %q, want %q", path, got, want)
		}
	}
}

func TestHeldInBodiesAndAnswers(t *testing.T) {
	for body, want := range map[string]string{
		`{"model":"m","previous_response_id":"resp_1","input":"b"}`:                                             "resp_1",
		`{"input":"b","conversation":{"id":"conv_2"}}`:                                                          "conv_2",
		`{"input":"b","conversation":"conv_3"}`:                                                                 "conv_3",
		`{"input_file_id":"file-4","endpoint":"/v1/x"}`:                                                         "file-4",
		`{"previous_response_id":null,"conversation":"conv_5"}`:                                                 "conv_5",
		`{"previous_response_id":""}`:                                                                           "",
		`{"input":{"previous_response_id":"resp_1"}}`:                                                           "",
		`{"input":[{"role":"user","content":[{"type":"input_text"},{"file_id":"file-6"}]}]}`:                    "file-6",
		`{"input":[{"id":"msg_7","type":"item_reference"},{"role":"user","content":"b"}]}`:                      "msg_7",
		`{"input":[{"id":"msg_7","type":"message","content":[]}]}`:                                              "",
		`{"tools":[{"type":"function"},{"type":"file_search","vector_store_ids":["vs_8","vs_9"]}],"input":"x"}`: "vs_8",
		`{"input":[{"type":"item_reference","id":"msg_7"}],"previous_response_id":"resp_1"}`:                    "resp_1",
		`{"input":[[[{"type":"item_reference","id":"msg_7"`:                                                     "",
		`{"input":[` + strings.Repeat(`{"a":1},`, 30_000) + `{}],"previous_response_id":"resp_1"}`:              "",
		`not JSON`: "",
	} {
		if got := HeldInBody([]byte(body)); got != want {
			t.Errorf("%s refers to %q, want %q", body, got, want)
		}
	}
	for answer, want := range map[string]string{
		`{"id":"resp_1","object":"response"}`:                                                    "resp_1",
		`{"object":"response","id":"resp_1`:                                                      "",
		": ping\n\nevent: response.created\ndata: {\"response\":{\"id\":\"resp_2\",\"output\":[": "resp_2",
		`{"id":"batch_1","output_file_id":"file-2","error_file_id":"file-3"}`:                    "batch_1 file-2 file-3",

		"event: ping\ndata: {\"type\":\"ping\"}\n\nevent: x\r\ndata: {\"response\":{\"id\":\"r_1\"}}\r\n": "r_1",

		": {\n\ndata: {\"response\":{\"id\":\"r_1\"}}\n\ndata: {\"item\":{\"id\":\"msg_2\"}}\n\ndata: [": "r_1 msg_2",

		`{"id":"r_1","output":[{"type":"reasoning","id":"rs_2"},{"type":"message","id":"msg_3",`: "r_1 rs_2 msg_3",

		`{"error":{"message":"x"}}`: "",
		``:                          "",
	} {
		if got := strings.Join(HeldInAnswer([]byte(answer)), " "); got != want {
			t.Errorf("%s names %q, want %q", answer, got, want)
		}
	}
}

func TestHeldBlocks(t *testing.T) {
	c := NewChainer(Secret("s"), 512)
	a := c.Held("", "scope", "id")
	for what, b := range map[string]Block{
		"another id": c.Held("", "scope", "ie"), "another scope": c.Held("", "scopf", "id"),
		"another cut": c.Held("", "scop", "eid"), "a tenant": c.Held("tenant", "scope", "id"),
		"another secret": NewChainer(Secret("t"), 512).Held("", "scope", "id"),
	} {
		if b.Key&(1<<tenantShift-1) == a.Key {
			t.Errorf("%s has the same key", what)
		}
	}
	if a.Tenant() != NoTenant || c.Held("tenant", "scope", "id").Tenant() == NoTenant ||
		c.Held("", "scope", "id") != a {
		t.Error("the tenant, or nothing, decides")
	}
}

func FuzzHeld(f *testing.F) {
	f.Add([]byte(`{"input":[{"type":"item_reference","id":"msg_7"}],"tools":[{"vector_store_ids":["vs_8"]}]}`))
	f.Add([]byte("data: {\"response\":{\"id\":\"resp_1\",\"output\":[{\"id\":\"msg_2\"}]}}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if id := HeldInBody(text); len(id) > maxModelName {
			t.Errorf("an id of %d bytes", len(id))
		}
		if ids := HeldInAnswer(text); len(ids) > maxMade {
			t.Errorf("%d ids", len(ids))
		}
	})
}

func BenchmarkHeldInBody(b *testing.B) {
	body := []byte(`{"model":"m","input":[` + strings.Repeat(`{"role":"user","content":[{"type":"input_text","text":"`+
		strings.Repeat("words and\\n", 600)+`"}]},`, 40) + `{}],"store":true}`)
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		HeldInBody(body)
	}
}
