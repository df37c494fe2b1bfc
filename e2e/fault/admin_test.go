package fault

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/faultproxy"
	"github.com/warmgate/warmgate/e2e/harness"
)

// adminInterface is a proxy between the plugin and Envoy's admin interface.
type adminInterface struct {
	*faultproxy.Proxy
	gateway atomic.Pointer[harness.Gateway]
	fault   atomic.Pointer[http.HandlerFunc] // answers in Envoy's place, unless nil
	good    atomic.Int64                     // Envoy's own answers
}

func newAdminInterface(t *testing.T) *adminInterface {
	t.Helper()
	a := new(adminInterface)
	var err error
	if a.Proxy, err = faultproxy.Start(t.Context(), harness.ServeT(t, a).Addr); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Stop)
	return a
}

// ServeHTTP implements http.Handler.
func (a *adminInterface) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if fault := a.fault.Load(); fault != nil {
		(*fault)(w, r)
		return
	}
	if r.URL.Path != "/clusters" {
		return // no cluster has subsets
	}
	g := a.gateway.Load()
	if g == nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	page, err := g.Clusters(r.Context())
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if _, err := io.WriteString(w, page); err == nil {
		a.good.Add(1)
	}
}

// edit makes the cluster of the admin interface lead to this server.
func (a *adminInterface) edit(file string, doc *yaml.Node) error {
	if file != "envoy.yaml" {
		return nil
	}
	host, port, err := net.SplitHostPort(a.Addr())
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	if err := harness.Remove(doc, "layered_runtime"); err != nil { // without it Envoy takes up to 32 MiB
		return err
	}
	return harness.Set(doc,
		"static_resources.clusters[name=warmgate-admin].load_assignment.endpoints[0].lb_endpoints[0].endpoint.address",
		map[string]any{"socket_address": map[string]any{"address": host, "port_value": n}})
}

// adminFault is one way in which the admin interface fails: as a connection, or by what it answers.
type adminFault struct {
	name   string
	mode   faultproxy.Mode
	answer http.HandlerFunc
}

// pages answers with a text over and over, without an end if n is 0.
func pages(text string, n int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; n == 0 || i < n; i++ {
			if _, err := io.WriteString(w, text); err != nil {
				return
			}
		}
	}
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// hangs are those in which no answer comes in time.
func hangs() []adminFault {
	return []adminFault{
		{"stalled", faultproxy.Stall(), nil},
		{"byte by byte", faultproxy.Drip(5 * time.Millisecond), nil},
	}
}

// failures are all others.
func failures() []adminFault {
	foreign := strings.Repeat("other::192.0.2.1:80::health_flags::healthy\n", mib/42)
	return []adminFault{
		{"no listener", faultproxy.Refuse(), nil},
		{"reset", faultproxy.Reset(), nil},
		{"cut", faultproxy.CutReply(300), nil},
		{"no HTTP", faultproxy.Garbage([]byte("garbage\r\n\r\n")), nil},
		{"500", faultproxy.Pass(), status(http.StatusInternalServerError)},
		{"404", faultproxy.Pass(), status(http.StatusNotFound)},
		{"nothing", faultproxy.Pass(), status(http.StatusOK)},
		{"HTML", faultproxy.Pass(), pages("<html><body>Sign in</body></html>\n", 1)},
		{"binary", faultproxy.Pass(), pages("\x00\xff\xfe\n", 1000)},
		{"100 MB", faultproxy.Pass(), pages(foreign, 100)},
		{"20 MB", faultproxy.Pass(), pages(foreign, 20)}, // not too much for Envoy: see edit
		{"endless", faultproxy.Pass(), pages(foreign, 0)},
	}
}

// set puts a fault in force, or ends all with the zero one.
func (a *adminInterface) set(t *testing.T, f adminFault) {
	t.Helper()
	a.fault.Store(nil)
	if f.answer != nil {
		a.fault.Store(&f.answer)
	}
	if err := a.Set(f.mode); err != nil {
		t.Fatal(err)
	}
}

// heal ends all faults, and waits until the plugin has read two good answers.
func (a *adminInterface) heal(t *testing.T) {
	t.Helper()
	a.set(t, adminFault{})
	for good := a.good.Load(); a.good.Load() < good+2; {
		time.Sleep(10 * time.Millisecond)
	}
}

// refusals returns how often the plugin has logged that the admin interface is unusable.
func refusals(g *harness.Gateway) int {
	return strings.Count(g.Logs(), "warmgate: the admin interface ")
}

// TestAdminInterfaceFails breaks the admin interface in every way under traffic. During a short failure the plugin
// continues with the endpoints that it knows; in a long one requests fall back to native balancing; afterwards it
// balances again. No request fails and nothing is left of what the interface sent.
func TestAdminInterfaceFails(t *testing.T) {
	t.Parallel()
	a := newAdminInterface(t)
	g := harness.StartT(t, harness.Options{Config: config(), Endpoints: harness.Models(t, 4), Edit: a.edit})
	a.gateway.Store(g)
	harness.AwaitReason(t, g.URL(), "chosen")
	before := used(t, g)
	traffic := steadyTraffic(t, g)
	for _, f := range slices.Concat(failures(), hangs()) {
		unknown, complaints := g.DecidedT(t, "no_endpoints"), refusals(g)
		a.set(t, f)
		harness.Await(t, func() error {
			if refusals(g) == complaints {
				return fmt.Errorf("%s: the plugin has noticed nothing", f.name)
			}
			return nil
		})
		a.heal(t)
		if n := g.DecidedT(t, "no_endpoints") - unknown; n != 0 {
			t.Errorf("%s: the plugin knew no endpoints for %v requests", f.name, n)
		}
	}
	hang(t, a, g)
	outlast(t, a, g, failures())
	traffic.Pause()
	wantNoneFailed(t, traffic)
	g.DrainedT(t)
	if growth := used(t, g) - before; growth > 64*mib {
		t.Errorf("Envoy uses %d MiB more than before", growth/mib)
	} else {
		t.Logf("Envoy uses %.1f MiB more than before", float64(growth)/mib)
	}
}

// hang lets the admin interface give no answer for longer than a list of endpoints is otherwise valid, as it does while
// Envoy's main thread is busy. The endpoints stay known.
func hang(t *testing.T, a *adminInterface, g *harness.Gateway) {
	t.Helper()
	unknown := g.DecidedT(t, "no_endpoints")
	a.set(t, adminFault{mode: faultproxy.Stall()})
	time.Sleep(16 * time.Second)
	if n := g.DecidedT(t, "no_endpoints") - unknown; n != 0 {
		t.Errorf("while the admin interface hung, the plugin knew no endpoints for %v requests", n)
	}
	a.heal(t)
}

// outlast repeats the faults without a good answer in between, until the plugin has dropped its endpoints, which it
// must not do before the list expires, and heals.
func outlast(t *testing.T, a *adminInterface, g *harness.Gateway, faults []adminFault) {
	t.Helper()
	// 10 s after the last good answer, on an idle machine
	const atLeast, period = 7 * time.Second, 700 * time.Millisecond
	broken := time.Now()
	for i := 0; ; i++ {
		a.set(t, faults[i%len(faults)])
		time.Sleep(period)
		switch reason := harness.Get(t, g.URL()+"/v1/models").Reason(); {
		case reason == "no_endpoints" && time.Since(broken) < atLeast:
			t.Fatalf("the endpoints were given up after %v", time.Since(broken))
		case reason == "chosen" && time.Since(broken) > harness.Patience:
			t.Fatal("the endpoints were not given up")
		case reason == "chosen":
			continue
		}
		break
	}
	harness.AwaitReason(t, g.URL(), "no_endpoints")
	a.set(t, adminFault{})
	harness.AwaitReason(t, g.URL(), "chosen")
}
