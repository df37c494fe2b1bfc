package security

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/harness"
)

// TestAnswersContainNoAddress searches whole answers, Envoy's own among them, for the addresses of model servers. They
// may appear only in the debug headers, and only when those are switched on.
func TestAnswersContainNoAddress(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 6*harness.Patience)
	defer cancel()
	f := newFleet(t, 2)
	dead := harness.Endpoint{Addr: "127.0.0.1:" + harness.FreePortT(t)}
	debug := strings.Replace(steering, `"lb_config":{`, `"lb_config":{"debug_headers":true,`, 1)
	g := harness.StartT(t, harness.Options{Endpoints: f.endpoints, Config: steering})
	for _, c := range []struct {
		name, config string
		endpoints    []harness.Endpoint
		status       int
		debug        bool
	}{
		{"served", steering, f.endpoints, http.StatusOK, false},
		{"served, debug headers", debug, f.endpoints, http.StatusOK, true},
		{"no endpoints", steering, nil, http.StatusServiceUnavailable, false},
		{"refused connections", steering, []harness.Endpoint{dead}, http.StatusServiceUnavailable, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := g.PushPlugin(ctx, c.config); err != nil {
				t.Fatal(err)
			}
			if err := g.PushEndpoints(ctx, c.endpoints); err != nil {
				t.Fatal(err)
			}
			text := answer(t, g, c.status, c.debug)
			for _, e := range append(c.endpoints, f.endpoints...) {
				without := strings.NewReplacer("X-Warmgate-Host: "+e.Addr, "", "X-Warmgate-Runner-Up: "+e.Addr, "")
				if strings.Contains(without.Replace(text), e.Addr) {
					t.Errorf("the answer contains %s:\n%s", e.Addr, text)
				}
			}
		})
	}
	if _, leaks := f.take(); leaks != nil {
		t.Errorf("model servers were sent %v", leaks)
	}
}

// answer repeats a request until the status is the wanted one and the debug headers are there or not, as a push takes a
// moment to show in health checks and in what the plugin knows of the endpoints. It returns the whole answer as text.
func answer(t *testing.T, g *harness.Gateway, status int, debug bool) string {
	t.Helper()
	var text strings.Builder
	harness.Await(t, func() error {
		a := harness.Send(t, http.DefaultClient, http.MethodPost, g.URL()+"/v1/chat/completions", chat)
		if a.Status != status || (a.Host() != "") != debug {
			return fmt.Errorf("answered %d, by %q, want %d", a.Status, a.Host(), status)
		}
		if err := a.Header.Write(&text); err != nil {
			return err
		}
		text.WriteString(a.Body)
		return nil
	})
	return text.String()
}
