package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/internal/golden"
	"github.com/warmgate/warmgate/internal/state"
)

// Requests of each API, and configurations of each kind of choice.
var (
	askedRequests = map[string]string{
		"chat": `{"model":"qwen","stream":true,"messages":[{"role":"user","content":"` +
			strings.Repeat("hello ", 400) + `"}]}`,
		"complete": `{"model":"qwen","prompt":"` + strings.Repeat("once upon a time ", 100) + `","max_tokens":64}`,
		"respond": "POST /v1/responses HTTP/1.1\nHost: llm\nContent-Type: application/json\nX-Session: s-17\n\n" +
			`{"model":"qwen","instructions":"be brief","input":[{"role":"user","content":"hello"}]}`,
		"anthropic": "POST /v1/messages HTTP/1.1\r\nHost: llm\r\nContent-Type: application/json\r\n" +
			"X-Tenant: acme\r\nExpect: 100-continue\r\n\r\n" +
			`{"model":"claude","system":"be brief","max_tokens":99,"messages":[{"role":"user","content":"hello"}]}`,
		"gemini": "POST /v1beta/models/gemini-2.0:streamGenerateContent?alt=sse HTTP/1.1\nHost: llm\n" +
			"Content-Type: application/json\n\n" + `{"contents":[{"role":"user","parts":[{"text":"hello"}]}]}`,
		"models":  "GET /v1/models HTTP/1.1\nHost: llm\n\n",
		"long":    `{"model":"qwen","messages":[{"role":"user","content":"` + strings.Repeat("long ", 60_000) + `"}]}`,
		"no JSON": `{"model":"qwen","messages":`,
	}
	askedConfigs = map[string]string{
		"prefix.yaml":  "lb_policy: prefix_cache\nlb_config: {prefix: {tenant_header: x-tenant}}\n",
		"steady.yaml":  "lb_policy: prefix_cache\nlb_config: {objective: {tpot: 4}}\n",
		"short.yaml":   "lb_policy: prefix_cache\nlb_config: {max_inspect_bytes: 64KiB, max_scan_bytes: 64KiB}\n",
		"least.yaml":   "lb_policy: global_least_request\nlb_config:\n  max_inflight: 4\n  queue: {max_wait: 20s}\n",
		"hash.yaml":    "lb_policy: consistent_hash\nlb_config: {session: {key: [\"header:x-session\"]}}\n",
		"metrics.yaml": "lb_policy: endpoint_metrics\nlb_config: {unit: tokens}\n",
		"budget.yaml": "lb_policy: token_budget\nlb_config:\n  targets:\n" +
			"    10.0.0.1:8000: {weight: 3, max_tokens_per_minute: 100}\n" +
			"    10.0.0.2:8000: {weight: 1, max_tokens_per_minute: 6000}\n",
		"clusters.yaml": "lb_type: cluster\nlb_policy: cluster_metrics\nlb_config:\n  mode: LeastBusy\n" +
			"  service_list: [a, b]\n  endpoint: {lb_policy: prefix_cache}\n",
	}
)

// askedState is a snapshot of a gateway with a cluster llm, and clusters a and b of a route.
func askedState() string {
	server := func(addr, health string, requests, tokens int) string {
		return fmt.Sprintf(`{"addr":%q,"health":%q,"weight":1,"requests":%d,"tokens":%d,`+
			`"engine":{"age_ms":400,"running":%d,"waiting":%d,"kv_cache":0.%d}}`,
			addr, health, requests, tokens, requests, requests/3, requests)
	}
	cluster := func(name string, servers ...string) string {
		return fmt.Sprintf(`{"name":%q,"policy":"","unit":"tokens","store":"embedded","endpoints":[%s]}`, name,
			strings.Join(servers, ","))
	}
	return `{"format":1,"gateways":[{"name":"one","state":{"format":1,"at_ms":1700000000000,` +
		`"clusters":[` + strings.Join([]string{
		cluster("llm", server("10.0.0.1:8000", "healthy", 4, 9000), server("10.0.0.2:8000", "healthy", 2, 6000),
			server("10.0.0.3:8000", "unhealthy", 0, 0), server("10.0.0.4:8000", "ejected", 0, 0)),
		cluster("a", server("10.1.0.1:8000", "healthy", 3, 9000), server("10.1.0.2:8000", "healthy", 2, 2000)),
		cluster("b", server("10.2.0.1:8000", "healthy", 5, 5000)),
		cluster("clusters/chat", server("a", "healthy", 5, 11000), server("b", "healthy", 6, 5000)),
	}, ",") + `]}},{"name":"two"}]}`
}

// explained are commands whose output is in testdata/explain, by the name of the file.
var explained = []struct{ name, request, args string }{
	{"prefix-cache", "chat", "-c prefix.yaml --cached 10.0.0.1:8000=80% --cluster llm"},
	{"prefix-cache-anthropic", "anthropic", "-c prefix.yaml --cluster llm"},
	{"objective", "chat", "-c steady.yaml --cached 10.0.0.1:8000=80% --cluster llm"},
	{"too-long", "long", "-c short.yaml --cluster llm"},
	{"malformed", "no JSON", "-c prefix.yaml --cluster llm"},
	{"least-request", "complete", "-c least.yaml --cluster llm"},
	{"idle", "models", "-c least.yaml --cluster llm"},
	{"consistent-hash", "respond", "-c hash.yaml --cluster llm"},
	{"endpoint-metrics", "anthropic", "-c metrics.yaml --cluster llm"},
	{"token-budget-gemini", "gemini", "-c budget.yaml --cluster llm"},
	{"clusters", "chat", "-c clusters.yaml --route chat --cluster llm"},
}

// What is explained of requests of each API, by each kind of policy, in both formats.
func TestExplain(t *testing.T) {
	testdata, err := filepath.Abs("testdata/explain")
	if err != nil {
		t.Fatal(err)
	}
	askedConfigs["gateway.json"] = askedState()
	files(t, askedConfigs)
	for _, c := range explained {
		for _, format := range []string{"text", "json"} {
			args := strings.Fields("explain --state gateway.json --gateway one -o " + format + " " + c.args)
			status, out, errs := play(askedRequests[c.request], args...)
			if status != 0 || errs != "" {
				t.Errorf("%s: status %d, %s", c.name, status, errs)
				continue
			}
			golden.Compare(t, filepath.Join(testdata, c.name+"."+format), out)
		}
	}
}

// What cannot be explained, and why.
func TestExplainRefuses(t *testing.T) {
	askedConfigs["gateway.json"], askedConfigs["bad.yaml"] = askedState(), bad
	files(t, askedConfigs)
	for args, want := range map[string]string{
		"":                                    "at least one of the flags",
		"-c bad.yaml --endpoint 10.0.0.1:80":  "2:13: lb_config.max_infligth: unknown key",
		"-c none.yaml --endpoint 10.0.0.1:80": "no such file",
		"-c - --endpoint 10.0.0.1:80":         "want a file",
		"-c prefix.yaml":                      "no endpoint is known",
		"-c prefix.yaml --endpoint 10.0.0.1:80,requests=x":              "want requests=N",
		"-c prefix.yaml --endpoint 10.0.0.1:80,weight=1e-300":           "want requests=N, tokens=N, weight=X",
		"-c prefix.yaml --endpoint tokens=3":                            "want an address",
		"-c prefix.yaml --endpoint 10.0.0.1:80,tokens=3":                "want requests=N, too",
		"-c prefix.yaml --endpoint 10.0.0.1:80 --cached 10.0.0.1:80=2":  "want an address and a part",
		"-c prefix.yaml --endpoint 10.0.0.1:80 --endpoint 10.0.0.1:80":  "is there twice",
		"-c prefix.yaml --endpoint 10.0.0.1:80 --cached 10.0.0.1:8=5%":  "no endpoint has this address",
		"-c prefix.yaml --state prefix.yaml":                            "is no snapshot",
		"-c prefix.yaml --state gateway.json":                           "--gateway: one, two",
		"-c prefix.yaml --state gateway.json --gateway two":             "has no state of two",
		"-c prefix.yaml --state gateway.json --gateway x":               "has no gateway",
		"-c prefix.yaml --state gateway.json --gateway one":             "--cluster: llm, a, b",
		"-c prefix.yaml --state gateway.json --gateway one --cluster x": "no such cluster",
		"--live 127.0.0.1:1":          "want a URL like",
		"--live http://127.0.0.1:1/x": "connection refused",
	} {
		status, out, errs := play(askedRequests["chat"], strings.Fields("explain "+args)...)
		if status != statusFault || out != "" || !strings.Contains(errs, want) {
			t.Errorf("%s: status %d, %s%s, want %q", args, status, out, errs, want)
		}
	}
	for request, want := range map[string]string{
		"": "no request", "hello": "want an HTTP message", "GET / HTTP/1.1\nhost\n\n": "no HTTP message",
	} {
		status, _, errs := play(request, "explain", "-c", "prefix.yaml", "--endpoint", "10.0.0.1:80")
		if status != statusFault || !strings.Contains(errs, want) {
			t.Errorf("%q: status %d, %s, want %q", request, status, errs, want)
		}
	}
}

// A running gateway gets the request as it is, with the token, below its path; what it answers is printed, or why it
// does not answer.
func TestExplainLive(t *testing.T) {
	answer, status := "", 200
	var got *http.Request
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		w.WriteHeader(status)
		fmt.Fprint(w, answer)
	}))
	defer gateway.Close()
	files(t, map[string]string{"token": "0123456789abcdef\n"})
	ask := func(more ...string) (int, string, string) {
		args := []string{"explain", "--live", gateway.URL + "/inspect", "--token-file", "token"}
		return play(askedRequests["respond"], append(args, more...)...)
	}
	e := state.Explanation{Format: state.Format, Decisions: []state.Decision{{
		Policy: "prefix_cache", Cluster: "llm", Reason: "no_endpoints\x1b[1m\u009b",
		Candidates: []state.Candidate{{Addr: "a\x1b[1m"}},
		Excluded:   []state.Excluded{{Addr: "b\x1b[1m", Why: "\x1b[1m"}},
	}}}
	text, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	answer = string(text)
	code, out, errs := ask()
	if code != 0 || !strings.Contains(out, `prefix_cache in llm`) || !strings.Contains(out, `no_endpoints\x1b[1m`) ||
		strings.Contains(out, "\x1b") {
		t.Errorf("status %d, %s%s", code, out, errs)
	}
	code, out, _ = ask("-o", "json")
	if code != 0 || !strings.Contains(out, `no_endpoints\u001b[1m\u009b`) || strings.ContainsAny(out, "\x1b\u009b") {
		t.Errorf("as JSON: status %d, %s", code, out)
	}
	if got.URL.Path != "/inspect/explain/v1/responses" || got.Header.Get("X-Session") != "s-17" || got.Host != "llm" ||
		got.Header.Get("Authorization") != "Bearer 0123456789abcdef" {
		t.Errorf("asked %v for %s with %v", got.Host, got.URL.Path, got.Header)
	}
	for _, c := range []struct {
		status       int
		answer, want string
	}{
		{200, "{", "none that this version"},
		{200, `{"format":99}`, "none that this version"},
		{401, `{"error":"no or wrong token"}`, "refuses the token"},
		{404, `{"error":"no such path, want state below /inspect"}`, "does not explain"},
		{404, "not found", "switches that on"},
		{503, "", "it answers 503"},
	} {
		status, answer = c.status, c.answer
		if code, _, errs := ask(); code != statusFault || !strings.Contains(errs, c.want) {
			t.Errorf("%d %s: status %d, %s, want %q", c.status, c.answer, code, errs, c.want)
		}
	}
}
