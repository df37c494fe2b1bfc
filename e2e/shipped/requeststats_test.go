package shipped

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/internal/vllmsim"
	"github.com/warmgate/warmgate/internal/vllmsim/vllmsimtest"
	"github.com/warmgate/warmgate/plugin/stats"
)

// TestRequestStatistics sends a stream through a gateway with the shipped bootstrap, and looks for all that is counted
// of one, with its labels, and with buckets that Envoy does not have by itself.
func TestRequestStatistics(t *testing.T) {
	upstream := []harness.Endpoint{{Addr: vllmsimtest.StartT(t, vllmsim.DefaultConfig()).Addr()}}
	g := take(t, harness.Options{Hardened: true, Endpoints: upstream, Config: `{"lb_policy":"prefix_cache","lb_config":{
		"debug_headers":true,"envoy":{"admin_cluster":"warmgate-admin"},
		"prices":{"currency":"EUR","tenant_header":"x-tenant","models":{"sim":{"input":1,"output":2}}}}}`})
	harness.AwaitReason(t, g.URL(), "chosen")
	const of = `policy="prefix_cache",cluster="llm",model="sim"`
	at := `cluster="llm",endpoint="` + regexp.QuoteMeta(upstream[0].Addr) + `"`
	lines := []string{
		stats.Requests + `\{` + of + `,outcome="ok"\}`,
		stats.AllTokens + `\{` + of + `,kind="input",usage="reported"\}`,
		stats.AllTokens + `\{` + of + `,kind="output",usage="reported"\}`,
		stats.Cost + `\{model="sim",tenant="acme",currency="EUR"\}`,
		stats.EndpointRequests + `\{` + at + `,outcome="ok"\}`,
		stats.EndpointStreams + `\{` + at + `\}`,
		stats.EndpointTokens + `\{` + at + `\}`,
		stats.Duration + `_bucket\{` + of + `,outcome="ok",le="120000"\}`,
		stats.TTFT + `_bucket\{` + of + `,le="120000"\}`,
		stats.Prefill + `_bucket\{` + of + `,le="120000"\}`,
		stats.Decode + `_bucket\{` + of + `,le="120000"\}`,
		stats.PerToken + `_bucket\{` + of + `,le="200000"\}`,
		stats.Gap + `_bucket\{` + of + `,le="120000"\}`,
		stats.RequestTokens + `_bucket\{` + of + `,kind="prompt",le="16384"\}`,
		stats.RequestTokens + `_bucket\{` + of + `,kind="completion",le="16384"\}`,
		stats.Policy + `\{policy="prefix_cache"\}`,
	}
	harness.Await(t, func() error {
		sendStream(t, g.URL()) // again: parts of one that have come together have no gaps
		page := g.PrometheusT(t)
		for _, line := range lines {
			if !regexp.MustCompile(`(?m)^` + line + ` [1-9]`).MatchString(page) {
				counted := regexp.MustCompile(`(?m)^warmgate_.*\bmodel=.*$`).FindAllString(page, -1)
				return fmt.Errorf("no line %s:\n%s", line, strings.Join(counted, "\n"))
			}
		}
		return nil
	})
}

// sendStream sends a request of a tenant that is answered with a stream.
func sendStream(t *testing.T, url string) {
	t.Helper()
	answer := harness.Send(t, http.DefaultClient, http.MethodPost, url+"/v1/chat/completions",
		`{"model":"sim","stream":true,"stream_options":{"include_usage":true},"max_tokens":12,`+
			`"messages":[{"role":"user","content":"Tell me of `+strings.Repeat("gates that are warm, ", 40)+`"}]}`,
		"content-type: application/json", "x-tenant: acme")
	if answer.Status != http.StatusOK {
		t.Fatal(answer.Status, answer.Body)
	}
}
