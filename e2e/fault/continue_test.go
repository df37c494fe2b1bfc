package fault

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
)

// withListener adds a listener of the given name: a copy of main that the edit changes, on a port of the kernel's choice.
func withListener(name string, edit func(listener *yaml.Node) error) func(file string, doc *yaml.Node) error {
	return func(file string, doc *yaml.Node) error {
		if file != "envoy.yaml" {
			return nil
		}
		main, err := harness.Find(doc, "static_resources.listeners[name=main]")
		if err != nil {
			return err
		}
		text, err := yaml.Marshal(main)
		if err != nil {
			return err
		}
		var other yaml.Node
		if err := yaml.Unmarshal(text, &other); err != nil {
			return err
		}
		listeners, err := harness.Find(doc, "static_resources.listeners")
		if err != nil {
			return err
		}
		listeners.Content = append(listeners.Content, other.Content[0])
		return errors.Join(
			harness.Set(other.Content[0], "name", name),
			harness.Set(other.Content[0], "address.socket_address.port_value", 0),
			edit(other.Content[0]),
		)
	}
}

// listenerURL returns where the listener of that name is.
func listenerURL(t *testing.T, g *harness.Gateway, name string) string {
	t.Helper()
	addr, err := g.Listener(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return "http://" + addr
}

// TestExpectContinue sends requests whose clients wait for a 100 (Continue) before they send the body. A gateway that leaves the 100
// to the model server does not get the body while the plugin holds the headers for it.
func TestExpectContinue(t *testing.T) {
	for _, version := range []string{harness.DefaultVersion, harness.OldestVersion} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			g := harness.StartT(t, harness.Options{
				Version: version, Endpoints: fleet(t, 2),
				Config: config(`"unit":"tokens"`, `"body_timeout":"60s"`),
				Edit: withListener("forwards", func(listener *yaml.Node) error {
					return harness.Set(listener, "filter_chains[0].filters[0].typed_config.proxy_100_continue", true)
				}),
			})
			awaitReason(t, g.URL(), "chosen")
			for _, c := range []struct{ name, url, reason string }{
				{"the gateway answers", g.URL(), "chosen"},
				{"the model server answers", listenerURL(t, g, "forwards"), "body_late"},
			} {
				t.Run(c.name, func(t *testing.T) {
					body := append(text(200), `"}]}`...)
					if reason := expectContinue(t, c.url, body); reason != c.reason {
						t.Errorf("the reason is %q, want %q", reason, c.reason)
					}
				})
			}
			drained(t, g)
		})
	}
}

// expectContinue sends a body once it is asked for, which must arrive, and returns the reason.
func expectContinue(t *testing.T, url string, body []byte) (reason string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience/4) // less than body_timeout
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+echo, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("expect", "100-continue")
	client := &http.Client{Transport: &http.Transport{ExpectContinueTimeout: patience, DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || "200 "+string(answer) != arrived(body) {
		t.Errorf("%s, %v: %.100s", resp.Status, err, answer)
	}
	return resp.Header.Get("x-warmgate-reason")
}
