package security

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/redisserver"
)

// canary is text in place of everything that must not be written anywhere: prompts, header values, passwords.
const canary = "c4n4ry-7f3a"

// TestNothingConfidentialIsLogged puts the canary wherever a client or an operator can put text and searches for it in
// all that Envoy and the plugin wrote, with the plugin's log at its most verbose.
func TestNothingConfidentialIsLogged(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 6*harness.Patience)
	defer cancel()
	f := newFleet(t, 2)
	talkative := strings.Replace(steering, `"lb_config":{`, `"lb_config":{"enableDetailLog":true,"unit":"tokens",
		"username":"`+canary+`","password":"`+canary+`",`, 1)
	talkative = strings.Replace(talkative, `"envoy":{`, `"envoy":{"redis_cluster":"warmgate-redis",`, 1)
	redis := redisserver.StartT(t, redisserver.Options{}) // which has no such user
	if _, err := redis.Do("ACL", "SETUSER", "default", "off"); err != nil {
		t.Fatal(err)
	}
	g := harness.StartT(t, harness.Options{
		Endpoints: f.endpoints, Redis: redis.Addr(), Config: talkative, LogLevel: "info", WasmLevel: "trace",
	})
	bodies := []string{
		`{"model":"` + canary + `","messages":[{"role":"user","content":"` + canary + `"}]}`,
		`{"model":"m","messages":[{"role":"` + canary + `","content":[{"type":"text","text":"` + canary + `"}]}],"user":"` + canary + `"}`,
		`{"model":"m","messages":"` + canary,     // cut off
		`{"model":"m","model":"` + canary + `"}`, // ambiguous
		canary,                                   // no JSON
		`{"prompt":"` + strings.Repeat(canary+" ", 40_000) + `"`, // longer than what is inspected
		"",
	}
	for _, body := range bodies {
		converse(t, g, body)
	}
	rules := `"_rules_":[{"_match_domain_":["x"],"lb_type":"cluster","lb_config":{"username":"` + canary + `","password":"` + canary + `"}},
		{"_match_domain_":["y"],"lb_policy":"global_least_request","lb_config":{"password":{"` + canary + `":1},"username":"` + canary + `"}}],`
	if err := g.PushPlugin(ctx, strings.Replace(talkative, "{", "{"+rules, 1)); err != nil { // refused in part
		t.Fatal(err)
	}
	for _, config := range []string{
		`{"lb_config":{"password":"` + canary + `","nonsense":1}}`,
		`{"lb_config":{"pasword":"` + canary + `"}}`,
		`{"lb_config":{"password":"` + canary + `","password":"` + canary + `"}}`,
		`{"lb_config":{"password":["` + canary + `"]},"lb_policy":"global_least_request"}`,
		`{"password":"` + canary,
	} {
		var refused *harness.RejectedError
		if err := g.PushPlugin(ctx, config); !errors.As(err, &refused) {
			t.Fatalf("push %s: %v", config, err)
		}
	}
	for !strings.Contains(g.Logs(), "unavailable (auth: ") && ctx.Err() == nil { // Redis may be slow at first
		converse(t, g, bodies[0])
	}
	awaitLines(t, g, len(bodies))
	wantNoCanary(t, "Envoy's log", g.Logs())
	wantNoCanary(t, "the access log", g.AccessLog())
	for _, want := range []string{"configuration refused, ", "configuration refused in part", "unavailable (auth: "} {
		if !strings.Contains(g.Logs(), want) {
			t.Errorf("the plugin wrote nothing of %q, so that was not tested", want)
		}
	}
}

// wantNoCanary looks for the canary in a text, in the ways in which it may be written.
func wantNoCanary(t *testing.T, name, text string) {
	t.Helper()
	for _, secret := range []string{
		canary, base64.StdEncoding.EncodeToString([]byte(canary)),
		hex.EncodeToString([]byte(canary)),
	} {
		if i := strings.Index(text, secret); i >= 0 {
			t.Errorf("%s holds it: ...%s", name, text[max(0, i-300):min(len(text), i+50)])
		}
	}
}

// awaitLines waits until the access log has n lines.
func awaitLines(t *testing.T, g *harness.Gateway, n int) {
	t.Helper()
	harness.Await(t, func() error {
		if log := g.AccessLog(); strings.Count(log, "\n") < n {
			return fmt.Errorf("the access log has not reached %d lines: %q", n, log)
		}
		return nil
	})
}

// converse sends one request with the canary in its headers, query and body and reads the answer, whatever it is.
func converse(t *testing.T, g *harness.Gateway, body string) {
	t.Helper()
	var headers []string
	for _, name := range []string{"Authorization", "Cookie", "X-Api-Key", "X-Warmgate-Class", destination, session} {
		headers = append(headers, name+": Bearer "+canary)
	}
	harness.Send(t, http.DefaultClient, http.MethodPost, g.URL()+"/v1/chat/completions?key="+canary, body, headers...)
}
