package higresshost

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/fakehost"
)

func TestModuleABI(t *testing.T) {
	higress, envoy := guest(t, "higress"), guest(t, "envoy")
	for _, c := range []struct {
		name    string
		wasm    []byte
		profile Profile
		want    ABI
	}{
		{"higress artifact in Higress", higress, Higress22, ABI02100},
		{"higress artifact in Envoy", higress, StockEnvoy, ""},
		{"envoy artifact in Envoy", envoy, StockEnvoy, ABI021},
		{"envoy artifact in Higress: the main package's export comes first", envoy, Higress22, ABI021},
		{"no module", []byte("hello"), Higress22, ""},
		{"cut module", higress[:40], Higress22, ""},
	} {
		got, err := ModuleABI(c.wasm, c.profile)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: %q, %v; want %q", c.name, got, err, c.want)
		}
	}
	names, err := ModuleExports(envoy)
	if err != nil || len(names) < 10 {
		t.Fatalf("exports %v, %v", names, err)
	}
}

func TestStockEnvoyRefusesHigressImports(t *testing.T) {
	// The version export is renamed in place, so that only the imports keep the module from loading.
	wasm := []byte(strings.Replace(string(guest(t, "higress")), "proxy_abi_version_0_2_100",
		"proxy_abi_version_0_2_1\x00\x00", 1))
	if _, err := New(Options{Wasm: wasm, Profile: StockEnvoy}); err == nil {
		t.Fatal("loaded")
	}
	if _, err := New(Options{Wasm: guest(t, "envoy"), Profile: StockEnvoy}); err != nil {
		t.Fatalf("the envoy build must load: %v", err)
	}
	if !offers(Higress21, "proxy_redis_call") || offers(StockEnvoy, "proxy_redis_call") ||
		offers(Higress22, "proxy_nonsense") {
		t.Error("wrong imports offered")
	}
}

// A panic of the guest: the outcome for the streams of its worker, and for the next requests.
func TestTrap(t *testing.T) {
	g := start(t, Options{Workers: 2})
	waiting := script(g, "")
	streaming := script(g, "")
	streaming.ResponseHeaders(fakehost.H(":status", "200"), false)
	held := script(g, "headers: stop; body: buffer; end: stop")
	other := g.Worker(1).Request("POST", "/", "{}")
	trapped := script(g, "headers: panic")

	for name, s := range map[string]*Stream{"waiting": waiting, "trapped": trapped} {
		if s.Code != 503 || !s.Received.End || !s.Lost {
			t.Errorf("%s: code %d, %+v", name, s.Code, s.Received)
		}
	}
	if !streaming.Cut || streaming.Received.End {
		t.Error("a stream in its response must be cut")
	}
	if held.Ended || !held.Paused() {
		t.Error("a held stream must hang")
	}
	held.IdleTimeout()
	if held.Code != 504 {
		t.Errorf("held: code %d", held.Code)
	}
	for _, s := range []*Stream{waiting, streaming, held, trapped} {
		if s.Callbacks.Log+s.Callbacks.Done+s.Callbacks.Delete != 0 {
			t.Errorf("%s got a callback at its end from a dead VM", s)
		}
	}
	if other.Lost || g.Worker(1).Failed() || !g.Worker(0).Failed() {
		t.Error("only worker 0 has failed")
	}
	other.Respond(200, "ok")
	onceEach(t, other)
	if !g.LogContains("by script") {
		t.Error("the guest's last words must be in the log")
	}
	for _, e := range g.Cluster("llm").Endpoints() {
		if e.Active() != 0 {
			t.Errorf("%s: %d active", e.Addr, e.Active())
		}
	}
}

func TestRecovery(t *testing.T) {
	g := start(t, Options{Config: "tick=100"})
	script(g, "headers: panic")
	s := script(g, "")
	if s.Upstream() == "" || g.Worker(0).Recoveries() != 1 || g.Worker(0).Failed() {
		t.Fatalf("the first crash is repaired by the next request: %+v", g.Worker(0))
	}
	s.Respond(200, "ok")
	onceEach(t, s)
	script(g, "headers: panic")
	if s := script(g, ""); s.Code != 503 || g.Worker(0).Recoveries() != 1 {
		t.Fatalf("a second recovery within a second: code %d", s.Code)
	}
	g.Advance(time.Second)
	if s := script(g, ""); s.Upstream() == "" || g.Worker(0).Recoveries() != 2 {
		t.Fatal("no recovery after a second")
	}
	if n := g.Worker(0).VMs(); n != 1 {
		t.Errorf("%d VMs", n)
	}
}

func TestFailOpen(t *testing.T) {
	g := start(t, Options{FailOpen: true})
	script(g, "headers: panic")
	script(g, "headers: panic")
	s := script(g, "headers: local 500")
	if s.Upstream() == "" || s.ID() != 0 {
		t.Fatalf("upstream %q: want it to pass without the plugin", s.Upstream())
	}
	s.Respond(200, "ok")
	if string(s.Received.Body) != "ok" || !s.Ended {
		t.Errorf("received %+v", s.Received)
	}
}

func TestTrapInRedisCallbackOrLog(t *testing.T) {
	g := start(t, Options{})
	s := script(g, "done: panic")
	s.Respond(200, "ok")
	if c := s.Callbacks; c.Log != 1 || c.Delete != 0 || !g.Worker(0).Failed() {
		t.Errorf("callbacks %+v", c)
	}
	if string(s.Received.Body) != "ok" || !s.Received.End {
		t.Errorf("the response was complete already: %+v", s.Received)
	}
}

func TestConfigRejected(t *testing.T) {
	if _, err := New(Options{Wasm: guest(t, "higress"), Config: "bad"}); !errors.Is(err, ErrConfigRejected) {
		t.Fatalf("New: %v", err)
	}
	g := start(t, Options{Config: "one"})
	for _, bad := range []string{"bad", "trap"} {
		if err := g.PushConfig(bad); !errors.Is(err, ErrConfigRejected) {
			t.Fatalf("%s: %v", bad, err)
		}
	}
	script(g, "")
	if !g.LogContains("headers 8 false one") {
		t.Error("the old configuration must stay in force")
	}
}

// Every configuration starts in a canary VM, then on the main thread and each worker.
func TestStartsPerConfiguration(t *testing.T) {
	g := start(t, Options{Config: "one", Workers: 2})
	var threads []string
	for _, e := range g.Logs(LogInfo) {
		threads = append(threads, e.Thread+" "+e.Text)
	}
	want := "canary start one generation 1|main start one generation 1|worker 0 start one generation 1|worker 1 " +
		"start one generation 1"
	if got := strings.Join(threads, "|"); got != want {
		t.Errorf("started %s, want %s", got, want)
	}
}

func TestConfigChange(t *testing.T) {
	g := start(t, Options{Config: "one"})
	old := script(g, "headers: stop; body: buffer; end: stop, park")
	if err := g.PushConfig("two tick=10"); err != nil {
		t.Fatal(err)
	}
	w := g.Worker(0)
	if w.Contexts() != 2 || w.VMs() != 1 {
		t.Fatalf("%d contexts in %d VMs: want 2 in 1", w.Contexts(), w.VMs())
	}
	if !g.LogContains("start two tick=10 generation 2") {
		t.Error("globals of the VM must survive a configuration")
	}
	fresh := script(g, "")
	g.Advance(10 * time.Millisecond) // the new context wakes the stream of the old one
	if !old.OnUpstream || old.Paused() {
		t.Fatal("not resumed")
	}
	if g.LogContains("plugin done") && len(w.Streams()) == 2 {
		if got := strings.Count(strings.Join(guestLog(g), "|"), "plugin done one"); got != 1 { // the idle main thread's
			t.Errorf("%d contexts done while a stream is open", got)
		}
	}
	old.Respond(200, "ok")
	onceEach(t, old)
	if !g.LogContains("done 0 true one") {
		t.Error("an old stream must end on its old context")
	}
	if w.Contexts() != 1 {
		t.Errorf("%d contexts after the last old stream", w.Contexts())
	}
	fresh.Respond(200, "ok")
	if !g.LogContains("done 0 true two") {
		t.Error("a new stream must run on the new context")
	}
}

// A configuration that comes back while its context still drains gets that context back.
func TestConfigComesBack(t *testing.T) {
	g := start(t, Options{Config: "one"})
	held := script(g, "")
	for _, c := range []string{"two", "one"} {
		if err := g.PushConfig(c); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(logText(g, "worker 0"), "start one"); n != 1 {
		t.Errorf("worker 0 started the first configuration %d times, want once", n)
	}
	held.Respond(200, "ok")
	if script(g, "").Upstream() == "" || g.Worker(0).Contexts() != 1 {
		t.Error("the context must stay current")
	}
}

func logText(g *Gateway, thread string) string {
	var out []string
	for _, e := range g.Logs(LogTrace) {
		if e.Thread == thread {
			out = append(out, e.Text)
		}
	}
	return strings.Join(out, "\n")
}

func TestCodeChange(t *testing.T) {
	g := start(t, Options{Config: "one"})
	old := script(g, "")
	g.Shared().Set("kept", []byte("1"), 0)
	if err := g.PushCode(append(append([]byte(nil), guest(t, "higress")...), 0, 3, 1, 'x', 0), "one"); err != nil {
		t.Fatal(err)
	}
	if w := g.Worker(0); w.VMs() != 2 {
		t.Fatalf("%d VMs", w.VMs())
	}
	old.Respond(200, "ok")
	onceEach(t, old)
	if w := g.Worker(0); w.VMs() != 1 || w.Contexts() != 1 {
		t.Errorf("%d VMs, %d contexts after the last old stream", w.VMs(), w.Contexts())
	}
	if v, _, err := g.Shared().Get("kept"); err != nil || string(v) != "1" {
		t.Error("shared data must survive a code change")
	}
}

func TestRebuild(t *testing.T) {
	g := start(t, Options{Config: "one"})
	s := script(g, "headers: rebuild")
	g.Advance(time.Second)
	if w := g.Worker(0); w.VMs() != 2 {
		t.Fatalf("%d VMs while a stream is open", w.VMs())
	}
	s.Respond(200, "ok")
	onceEach(t, s)
	if w := g.Worker(0); w.VMs() != 1 || w.Failed() {
		t.Errorf("%d VMs after the last stream", w.VMs())
	}
	if script(g, "").Upstream() == "" {
		t.Error("the new VM takes no streams")
	}
}

func TestLatePluginDone(t *testing.T) {
	g := start(t, Options{Config: "late finish tick=10"})
	if err := g.PushConfig("two"); err != nil {
		t.Fatal(err)
	}
	if n := g.Worker(0).Contexts(); n != 2 {
		t.Fatalf("%d contexts: one answered that it is not done", n)
	}
	g.Advance(10 * time.Millisecond)
	if n := g.Worker(0).Contexts(); n != 1 {
		t.Errorf("%d contexts after proxy_done", n)
	}
}

func TestShutdown(t *testing.T) {
	g := start(t, Options{Config: "one", Workers: 2})
	s := script(g, "")
	g.Shutdown()
	onceEach(t, s)
	if n := strings.Count(strings.Join(guestLog(g), "|"), "plugin done one"); n != 3 {
		t.Errorf("done was called on %d plugin contexts, want 3", n)
	}
}
