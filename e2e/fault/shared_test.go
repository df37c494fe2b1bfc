package fault

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/freeport"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/internal/vllmsim"
	"github.com/warmgate/warmgate/internal/vllmsim/vllmsimtest"
)

// secondListener adds to the shipped bootstrap a copy of its listener, whose plugin has a configuration of its own in
// the same VM: the VM's id, settings and code are the same.
func secondListener(port int, module, config string) func(file string, doc *yaml.Node) error {
	return withListeners(map[string]func(*yaml.Node) error{"second": func(listener *yaml.Node) error {
		plugin, err := shippedPlugin(module, config)
		if err != nil {
			return err
		}
		return errors.Join(
			harness.Set(listener, "address.socket_address.port_value", port),
			harness.Remove(listener, httpFilters+"[name=warmgate].config_discovery"),
			harness.Set(listener, httpFilters+"[name=warmgate].typed_config", plugin),
		)
	}})
}

// shippedPlugin returns the plugin of warmgate.yaml with another configuration and a name for that.
func shippedPlugin(module, config string) (*yaml.Node, error) {
	root, err := harness.Root()
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(root, "envoy-config", "warmgate.yaml"))
	if err != nil {
		return nil, err
	}
	doc := new(yaml.Node)
	if err := yaml.Unmarshal(text, doc); err != nil {
		return nil, err
	}
	const path = "resources[name=warmgate].typed_config"
	if err := errors.Join(
		harness.Set(doc, path+".config.name", "second"),
		harness.Set(doc, path+".config.vm_config.code.local.filename", module),
		harness.Set(doc, path+".config.configuration.value", config),
	); err != nil {
		return nil, err
	}
	return harness.Find(doc, path)
}

// talk is a chat request whose answer takes minutes.
func talk(t *testing.T, url string) *http.Response {
	t.Helper()
	const body = `{"model":"m","stream":true,"max_tokens":1000,"messages":[{"role":"user","content":"hello"}]}`
	return harness.OpenT(t, nil, http.MethodPost, url+"/v1/chat/completions", body)
}

// wantTalk opens a stream and compares its status and the plugin's debug headers.
func wantTalk(t *testing.T, url string, status int, reason, load string) *http.Response {
	t.Helper()
	resp := talk(t, url)
	got, why := resp.Header.Get("x-warmgate-load"), resp.Header.Get("x-warmgate-reason")
	if resp.StatusCode != status || why != reason || got != load {
		t.Fatalf("%s, reason %q, load %q; want %d, %q, %q", resp.Status, why, got, status, reason, load)
	}
	return resp
}

// twoConfigurations starts a gateway with two listeners, and servers whose streams go on until they are closed.
func twoConfigurations(t *testing.T,
	first, second string,
) (g *harness.Gateway, one, two string, servers []harness.Endpoint) {
	t.Helper()
	slow := vllmsim.DefaultConfig()
	slow.Tuning = vllmsim.NoLatency()
	slow.Tuning.DecodeStepMS = 200
	for i := range 3 {
		slow.Index = i
		servers = append(servers, harness.Endpoint{Addr: vllmsimtest.StartT(t, slow).Addr()})
	}
	module, err := harness.Wasm(context.Background(), harness.HostEnvoy)
	if err != nil {
		t.Fatal(err)
	}
	port, err := freeport.Get()
	if err != nil {
		t.Fatal(err)
	}
	g = harness.StartT(t, harness.Options{
		Module: module, Config: first, Endpoints: servers[:2], Edit: secondListener(port, module, second),
	})
	return g, g.URL(), "http://127.0.0.1:" + strconv.Itoa(port), servers
}

// TestTwoConfigurations runs two configurations of the plugin in one Envoy. They share the VMs and the counts: requests
// of one count as load for the other. Everything else is separate: limits, being switched off, invalid configurations,
// and the end of one.
func TestTwoConfigurations(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	g, one, two, servers := twoConfigurations(t, config(), config(`"max_inflight":4`))
	harness.AwaitReason(t, one, "chosen")
	harness.AwaitReason(t, two, "chosen")
	const workers = 2
	if n := g.SumT(t, `^wasm\.wasm_vm_count$`); n != workers+2 { // the main thread's, and the one that all are copied from
		t.Errorf("%v VMs: they are not shared", n)
	}
	var open []*http.Response
	for i := range 8 { // two endpoints, by turns
		open = append(open, wantTalk(t, []string{one, two}[i/2%2], http.StatusOK, "chosen", strconv.Itoa(i/2+1)))
	}
	full := func() {
		t.Helper()
		wantTalk(t, two, http.StatusTooManyRequests, "at_capacity", "")
	}
	full()
	open = append(open, wantTalk(t, one, http.StatusOK, "chosen", "5"))
	apart(t, g, one, full)

	// The second, now alone, learns of an endpoint that is new.
	if err := g.PushEndpoints(ctx, servers); err != nil {
		t.Fatal(err)
	}
	harness.Await(t, func() error {
		resp := talk(t, two)
		resp.Body.Close()
		if host := resp.Header.Get("x-warmgate-host"); host != servers[2].Addr {
			return fmt.Errorf("%s, reason %q, host %q, want the new one", resp.Status,
				resp.Header.Get("x-warmgate-reason"), host)
		}
		return nil
	})

	// The first comes back to counts that were kept.
	if err := g.PushPlugin(ctx, config()); err != nil {
		t.Fatal(err)
	}
	harness.Await(t, func() error {
		if n := g.SumT(t, `^wasmcustom\.warmgate_inflight_requests`); int(n) != len(open) {
			return fmt.Errorf("%v requests are counted, %d streams are open", n, len(open))
		}
		return nil
	})
	open = append(open, wantTalk(t, one, http.StatusOK, "chosen", "1"))
	for _, resp := range open {
		resp.Body.Close()
	}
	g.DrainedT(t)
}

// apart changes the first configuration in every way, at the end to none, while the second stays in force.
func apart(t *testing.T, g *harness.Gateway, one string, full func()) {
	t.Helper()
	ctx := context.Background()
	if err := g.PushPlugin(ctx, `{"enabled":false,`+config()[1:]); err != nil {
		t.Fatal(err)
	}
	harness.AwaitReason(t, one, "disabled")
	full()
	var refused *harness.RejectedError
	if err := g.PushPlugin(ctx, `{"lb_policy":"nonsense"}`); !errors.As(err, &refused) {
		t.Fatalf("a bad configuration: %v", err)
	}
	harness.AwaitReason(t, one, "disabled")
	full()

	if err := g.PushNoPlugin(ctx); err != nil {
		t.Fatal(err)
	}
	harness.AwaitReason(t, one, "")
	full()
}
