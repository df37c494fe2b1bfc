package security

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/harness"
)

// A forgery is one way in which a client tries to have its request sent to the endpoint target.
type forgery struct {
	name  string
	forge func(r *http.Request, target string)
}

func forgeries() []forgery {
	encoded := func(target string) string { return base64.StdEncoding.EncodeToString([]byte(target)) }
	return []forgery{
		{"destination", func(r *http.Request, target string) { r.Header.Set(destination, target) }},
		{"destination, upper case", func(r *http.Request, target string) {
			r.Header[strings.ToUpper(destination)] = []string{target}
		}},
		{"destination, list", func(r *http.Request, target string) {
			r.Header.Set(destination, "192.0.2.1:80, "+target+","+target)
		}},
		{"destination, twice", func(r *http.Request, target string) {
			r.Header[destination] = []string{target, target}
		}},
		{"destination, in a trailer", func(r *http.Request, target string) {
			r.ContentLength = -1 // HTTP/1 has trailers only in chunked bodies
			r.Trailer = http.Header{http.CanonicalHeaderKey(destination): {target}}
		}},
		{"session", func(r *http.Request, target string) { r.Header.Set(session, encoded(target)) }},
		{"session, twice, upper case", func(r *http.Request, target string) {
			r.Header[strings.ToUpper(session)] = []string{encoded(target), encoded(target)}
		}},
		{"both", func(r *http.Request, target string) {
			r.Header.Set(session, encoded(target))
			r.Header.Set(destination, target)
		}},
		{"an address outside the cluster", func(r *http.Request, _ string) {
			r.Header.Set(session, encoded("192.0.2.1:80"))
			r.Header.Set(destination, "192.0.2.1:80")
		}},
		{"garbage", func(r *http.Request, _ string) {
			r.Header.Set(session, "%%%")
			r.Header.Set(destination, ",;\"x")
		}},
	}
}

// pluginStates are the states that the plugin may be in when the forged request comes. Each is entered by a push.
func pluginStates() []struct {
	name  string
	enter func(context.Context, *harness.Gateway) error
} {
	return []struct {
		name  string
		enter func(context.Context, *harness.Gateway) error
	}{
		{"on", func(ctx context.Context, g *harness.Gateway) error { return g.PushPlugin(ctx, steering) }},
		{"configuration refused", func(ctx context.Context, g *harness.Gateway) error {
			if err := g.PushPlugin(ctx, `{"lb_policy":"nonsense"}`); err == nil {
				return fmt.Errorf("an unknown policy was accepted")
			}
			return nil
		}},
		{"off", func(ctx context.Context, g *harness.Gateway) error { return g.PushPlugin(ctx, `{"enabled":false}`) }},
		{"absent", func(ctx context.Context, g *harness.Gateway) error { return g.PushNoPlugin(ctx) }},
	}
}

// TestForgedDestinationNeverSteers sends many requests that all name one endpoint. If a single way of naming it worked,
// that endpoint would get all of them; otherwise it gets about its quarter.
func TestForgedDestinationNeverSteers(t *testing.T) {
	for name, o := range layouts {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 6*harness.Patience)
			defer cancel()
			f := newFleet(t, 4)
			o.Endpoints, o.Config = f.endpoints, steering
			g := harness.StartT(t, o)
			for _, state := range pluginStates() {
				if err := state.enter(ctx, g); err != nil {
					t.Fatalf("plugin %s: %v", state.name, err)
				}
				for _, forged := range forgeries() {
					t.Run(state.name+"/"+forged.name, func(t *testing.T) { forge(t, g, f, forged) })
				}
			}
		})
	}
}

// forge sends requests with one forgery. With 4 endpoints and 200 requests a share above one half is 8 standard
// deviations away from a quarter.
func forge(t *testing.T, g *harness.Gateway, f *fleet, forged forgery) {
	const requests = 200
	f.take()
	for i := range requests {
		if status := send(t, g, f, i, forged); status != http.StatusOK {
			t.Fatalf("answered %d", status)
		}
	}
	verdict(t, f, requests)
}

// send sends the i-th request with a forgery in the name of the first endpoint and returns the status of the answer.
func send(t *testing.T, g *harness.Gateway, f *fleet, i int, forged forgery) int {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, g.URL()+"/v1/chat/completions", io.NopCloser(strings.NewReader(chat)))
	if err != nil {
		t.Fatal(err)
	}
	r.ContentLength = int64(len(chat))
	forged.forge(r, f.endpoints[0].Addr)
	resp, err := clients[i%len(clients)].Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	if leaked := internal(resp.Header); leaked != nil {
		t.Fatalf("the client was answered with %v", leaked)
	}
	return resp.StatusCode
}

// verdict checks where the requests went and what the servers received.
func verdict(t *testing.T, f *fleet, requests int) {
	t.Helper()
	served, leaks := f.take()
	if len(leaks) > 0 {
		t.Errorf("model servers were sent %v", leaks[0])
	}
	if n := served[f.endpoints[0].Addr]; n > requests/2 {
		t.Errorf("the named endpoint served %d of %d requests: %v", n, requests, served)
	}
}

// TestForgedDestinationWhileCrashing crashes the plugin's VM over and over, in a way that no recover can prevent, and
// sends forged requests into the gaps. They are answered, or refused while the VM is rebuilt, but not steered.
func TestForgedDestinationWhileCrashing(t *testing.T) {
	const rounds, perRound = 50, 6
	module, err := harness.Wasm(t.Context(), harness.HostEnvoyChaos)
	if err != nil {
		t.Fatal(err)
	}
	f := newFleet(t, 4)
	g := harness.StartT(t, harness.Options{Endpoints: f.endpoints, Config: steering, Module: module})
	crash := forgery{"crash", func(r *http.Request, _ string) { r.Header.Set("x-warmgate-chaos", "fatal") }}
	both := forgeries()[slices.IndexFunc(forgeries(), func(f forgery) bool { return f.name == "both" })]
	answered := 0
	for round := range rounds {
		if status := send(t, g, f, round, crash); status == http.StatusOK {
			t.Fatal("the plugin did not crash, so nothing was tested")
		}
		for i := range perRound {
			if send(t, g, f, round+i, both) == http.StatusOK {
				answered++
			}
		}
	}
	if answered < rounds {
		t.Errorf("only %d of %d requests were answered", answered, rounds*perRound)
	}
	verdict(t, f, answered)
}
