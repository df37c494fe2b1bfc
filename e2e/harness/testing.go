package harness

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/freeport"
	"github.com/warmgate/warmgate/internal/vllmsim"
)

// Patience bounds every wait of a test. Only what never happens takes so long, also on a machine with 30 times as much
// to do as it can.
const Patience = 5 * time.Minute

// StartT is Start for tests: it fails the test when Envoy does not start, stops Envoy when the test ends and then, if
// the test has failed, shows the end of Envoy's log.
func StartT(t testing.TB, o Options) *Gateway {
	t.Helper()
	// Not t.Context(): it ends before the cleanup below has read the log.
	g, err := Start(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("Envoy's log ends:\n%s", g.LogTail())
		}
		if err := g.Stop(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// LongT skips what only the full form of the tests has, without -short, as make e2e runs it.
func LongT(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("make e2e has it")
	}
}

// LogWriter returns a writer to the test's log, one entry for each write.
func LogWriter(t testing.TB) io.Writer { return logWriter{t} }

type logWriter struct{ t testing.TB }

func (w logWriter) Write(p []byte) (int, error) {
	w.t.Logf("%s", bytes.TrimSpace(p))
	return len(p), nil
}

// Await calls check until it returns nil, and fails the test with its last error after Patience.
func Await(t testing.TB, check func() error) {
	t.Helper()
	for end := time.Now().Add(Patience); ; time.Sleep(20 * time.Millisecond) {
		err := check()
		if err == nil {
			return
		}
		if t.Failed() || time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// BetweenT returns the same to a test that runs on no other releases, and skips it if there are none.
func BetweenT(t testing.TB) []string {
	t.Helper()
	list := Between()
	if len(list) == 0 {
		t.Skip("ENVOY_BETWEEN names no release; make e2e-versions does")
	}
	return list
}

// Models starts n model servers that answer at once, until the test ends.
func Models(t testing.TB, n int) []Endpoint {
	t.Helper()
	var list []Endpoint
	for i := range n {
		list = append(list, ServeT(t, vllmsim.New(vllmsim.Config{Index: i, Instant: true})))
	}
	return list
}

// ServeT starts a server, until the test ends.
func ServeT(t testing.TB, h http.Handler) Endpoint {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return Endpoint{Addr: server.Listener.Addr().String()}
}

// Answer is a response that was read to its end.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// Reason returns why the plugin decided as it did, from its debug headers.
func (a *Answer) Reason() string { return a.Header.Get("x-warmgate-reason") }

// Host returns the endpoint that the plugin chose, from its debug headers.
func (a *Answer) Host() string { return a.Header.Get("x-warmgate-host") }

// Send sends a request and reads its answer. It follows no redirects. Headers are "name: value"; "host: value" sets the
// host. Without a client the request has a connection of its own, so that any worker may get it.
func Send(t testing.TB, c *http.Client, method, url, body string, headers ...string) *Answer {
	t.Helper()
	resp := OpenT(t, c, method, url, body, headers...)
	text, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	return &Answer{resp.StatusCode, resp.Header, string(text)}
}

// Get sends a GET request, on a connection of its own, that must be answered 200.
func Get(t testing.TB, url string) *Answer {
	t.Helper()
	a := Send(t, nil, http.MethodGet, url, "")
	if a.Status != http.StatusOK {
		t.Fatalf("GET %s: %d: %s", url, a.Status, a.Body)
	}
	return a
}

// OpenT sends a request as Send does and leaves its answer to be read. The answer is closed when the test ends.
func OpenT(t testing.TB, c *http.Client, method, url, body string, headers ...string) *http.Response {
	t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "host" {
			r.Host = value
			continue
		}
		r.Header.Set(name, value)
	}
	transport := http.DefaultTransport
	if r.Close = c == nil; c != nil && c.Transport != nil {
		transport = c.Transport
	}
	resp, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// SumT is Sum for tests.
func (g *Gateway) SumT(t testing.TB, filter string) float64 {
	t.Helper()
	n, err := g.Sum(context.Background(), filter)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// DecidedT returns how many requests the plugin has counted under the reason.
func (g *Gateway) DecidedT(t testing.TB, reason string) float64 {
	t.Helper()
	return g.SumT(t, `^wasmcustom\.warmgate_decisions_total.*;reason=`+regexp.QuoteMeta(reason)+`$`)
}

// DrainedT waits until the plugin counts nothing in flight, and checks that before that no VM was lost, nothing
// panicked and no total had to be corrected.
func (g *Gateway) DrainedT(t testing.TB) {
	t.Helper()
	Await(t, func() error {
		stats, err := g.Stats(context.Background(), `^wasmcustom\.warmgate_inflight_`)
		for name, n := range stats {
			if n != 0 {
				return fmt.Errorf("%s is %v, and nothing is in flight", name, n)
			}
		}
		return err
	})
	const never = `^wasmcustom\.warmgate_(recovered_panics|store_corrected)_total$|^wasm\.warmgate\.vm_reload_`
	if n := g.SumT(t, never); n != 0 {
		t.Errorf("%v panics, corrections or lost VMs", n)
	}
}

// PrometheusT is Prometheus for tests.
func (g *Gateway) PrometheusT(t testing.TB) string {
	t.Helper()
	text, err := g.Prometheus(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// PathT returns the path of a file of the source tree.
func PathT(t testing.TB, name string) string {
	t.Helper()
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(root, name)
}

// ReadT returns a file of the source tree.
func ReadT(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(PathT(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// ProgramT builds the program warmgate into a folder, and returns its path.
func ProgramT(t testing.TB, dir string) string {
	t.Helper()
	program := filepath.Join(dir, "warmgate")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", program, "./cmd/warmgate")
	build.Dir = PathT(t, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// OwnSecret is what tests write in the place of passwords that everybody knows.
const OwnSecret = "our-own-secret"

var own = strings.NewReplacer("replace this by 32 random bytes", OwnSecret, "32 random bytes", OwnSecret,
	"change-me", OwnSecret)

// Own replaces the placeholders of secrets in a file, or a block of a document, as its user has to: the plugin
// refuses those of its own secrets, and warns of that of Redis.
func Own[T ~string | ~[]byte](text T) T { return T(own.Replace(string(text))) }

// AwaitReason waits until the plugin gives the reason for 16 requests in a row, so that two workers do. Headers are as
// in Send.
func AwaitReason(t testing.TB, url, reason string, headers ...string) {
	t.Helper()
	Await(t, func() error {
		for range 16 {
			if got := Send(t, nil, http.MethodGet, url+"/sim/echo", "", headers...).Reason(); got != reason {
				return fmt.Errorf("%q: the reason is %q, want %q", headers, got, reason)
			}
		}
		return nil
	})
}

// FreePortT returns a port of 127.0.0.1 at which no process listens.
func FreePortT(t testing.TB) string {
	t.Helper()
	port, err := freeport.Get()
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(port)
}

// H2C returns a client that speaks HTTP/2 without TLS.
func H2C() *http.Client {
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	return &http.Client{Transport: transport, Timeout: Patience}
}

// modules are those that ModuleT has built, []byte by Host.
var modules sync.Map

// ModuleT returns the plugin's module for a host. It is built once.
func ModuleT(t testing.TB, host Host) []byte {
	t.Helper()
	if module, ok := modules.Load(host); ok {
		return module.([]byte)
	}
	path, err := Wasm(context.Background(), host)
	if err != nil {
		t.Fatal(err)
	}
	module, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	modules.Store(host, module)
	return module
}
