package fault

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/vllmsim"
)

// patience bounds every wait, on a machine that may be busy.
const patience = time.Minute

// config returns a configuration of the plugin that polls often. Lines are added to lb_config, each as `"key":value`.
func config(lines ...string) string {
	all := append([]string{
		`"envoy":{"admin_cluster":"warmgate-admin","poll_interval":"100ms"}`, `"debug_headers":true`, `"health":{"slow_start":0}`,
	}, lines...)
	return `{"lb_type":"endpoint","lb_policy":"global_least_request","lb_config":{` + strings.Join(all, ",") + `}}`
}

// fleet starts n servers that answer at once.
func fleet(t *testing.T, n int) []harness.Endpoint {
	t.Helper()
	var list []harness.Endpoint
	for i := range n {
		server := httptest.NewServer(vllmsim.New(vllmsim.Config{Index: i, Instant: true}))
		t.Cleanup(server.Close)
		list = append(list, harness.Endpoint{Addr: server.Listener.Addr().String()})
	}
	return list
}

// await calls check until it succeeds.
func await(t *testing.T, check func() error) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// probe sends a request on a connection of its own, so that any worker may get it, and returns the headers of the
// answer. No status but 200 will do.
func probe(t *testing.T, url string) http.Header {
	t.Helper()
	return probeAt(t, url+"/v1/models")
}

func probeAt(t *testing.T, url string) http.Header {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s, %v", resp.Status, err)
	}
	return resp.Header
}

// awaitReason waits until the plugin gives the reason for 16 requests in a row, so that both workers do.
func awaitReason(t *testing.T, url, reason string) {
	t.Helper()
	await(t, func() error {
		for range 16 {
			if got := probe(t, url).Get("x-warmgate-reason"); got != reason {
				return fmt.Errorf("the reason is still %q, want %q", got, reason)
			}
		}
		return nil
	})
}

// sum adds up the statistics whose name matches.
func sum(t *testing.T, g *harness.Gateway, filter string) float64 {
	t.Helper()
	n, err := g.Sum(context.Background(), filter)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// decided returns how many requests were counted under the reason.
func decided(t *testing.T, g *harness.Gateway, reason string) float64 {
	t.Helper()
	return sum(t, g, `^wasmcustom\.warmgate_decisions_total.*;reason=`+regexp.QuoteMeta(reason)+`$`)
}

// drained waits until nothing is counted in flight, and checks that on the way there no VM was lost, nothing panicked
// and no total had to be corrected.
func drained(t *testing.T, g *harness.Gateway) {
	t.Helper()
	await(t, func() error {
		if n := sum(t, g, `^wasmcustom\.warmgate_inflight_`); n != 0 {
			return fmt.Errorf("%v requests or tokens are counted in flight, none is", n)
		}
		return nil
	})
	const never = `^wasmcustom\.warmgate_(recovered_panics|store_corrected)_total$|^wasm\.warmgate\.vm_reload_`
	if n := sum(t, g, never); n != 0 {
		t.Errorf("%v panics, corrections or lost VMs", n)
	}
}

// used returns how many bytes of memory Envoy uses.
func used(t *testing.T, g *harness.Gateway) int64 {
	t.Helper()
	n, _, err := g.Used(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

const mib = 1 << 20
