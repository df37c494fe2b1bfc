package istio

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"istio.io/istio/pilot/pkg/features"
	"istio.io/istio/pkg/test"

	"github.com/warmgate/warmgate/e2e/mesh/lab"
)

// TestAmbient has the model servers in an ambient mesh: Istio has the gateway reach them through HBONE, which is HTTP/2
// CONNECT to port 15008 of each, from a listener inside the gateway. So their addresses are those behind this listener.
// The plugin balances, steers, retries and counts as it does without, and scrapes the servers directly.
func TestAmbient(t *testing.T) {
	applied, request := installed(t)
	for name, text := range map[string]string{
		"global_least_request": with(t, applied, config, inTokens),
		"endpoint_metrics":     with(t, applied, policy, `"lb_policy": "endpoint_metrics"`),
	} {
		t.Run(name, func(t *testing.T) {
			lab.OnVersions(t, func(t *testing.T, version string) {
				gateway := controlledBy(t, version, ambient, text)
				if name != "global_least_request" {
					gateway.Scraped(t)
					return
				}
				gateway.Behind = "envoy://connect_originate/"
				gateway.Check(t)
				gateway.Requested(t, request)
			})
		})
	}
}

// ambient is istiod with the servers in an ambient mesh. TLS is left out, as there is no authority that certifies.
func ambient(t *testing.T, port string, servers []*lab.Server, texts ...string) *lab.Resources {
	t.Helper()
	test.SetForTest(t, &features.EnableHBONESend, true)
	entry := `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: vllm, namespace: default}
spec:
  hosts: [vllm.default.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{name: http, number: 8000, protocol: HTTP}]
  endpoints:
`
	for _, s := range servers {
		host, port, err := net.SplitHostPort(s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		entry += fmt.Sprintf("  - {address: %s, ports: {http: %s}, labels: {networking.istio.io/tunnel: http}}\n", host,
			port)
		terminateTunnels(t, host)
	}
	r := resourcesOf(t, port, "", append(texts, entry)...)
	tunnels := 0
	for _, c := range r.Clusters {
		if c["name"] == "connect_originate" {
			tunnels++
			delete(c, "transportSocket")
		}
	}
	if all := fmt.Sprint(r.Endpoints); tunnels != 1 ||
		strings.Count(all, "serverListenerName:connect_originate") != len(servers) {
		t.Fatalf("%d clusters for tunnels, and the endpoints %s", tunnels, all)
	}
	return r
}

// terminateTunnels does what ztunnel does on the servers' side: it connects what comes to the server that is asked for.
func terminateTunnels(t *testing.T, host string) {
	t.Helper()
	const hbone = "15008"
	l, err := net.Listen("tcp", net.JoinHostPort(host, hbone))
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Protocols: new(http.Protocols), Handler: http.HandlerFunc(tunnelled)}
	s.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
}

func tunnelled(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	conn, err := net.Dial("tcp", r.Host)
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	defer conn.Close()
	control := http.NewResponseController(w)
	_ = control.Flush()
	go func() {
		_, _ = io.Copy(conn, r.Body)
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	part := make([]byte, 32<<10)
	for {
		n, err := conn.Read(part)
		if _, failed := w.Write(part[:n]); failed != nil || err != nil {
			return
		}
		_ = control.Flush()
	}
}
