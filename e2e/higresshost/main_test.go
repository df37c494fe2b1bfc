package higresshost

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// guests builds the guest of testdata once per process: as for Higress, and as for stock Envoy (tag envoy).
var guests = sync.OnceValues(func() (map[string][]byte, error) {
	dir, err := os.MkdirTemp("", "higresshost")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
	defer cancel()
	out := map[string][]byte{}
	for _, tag := range []string{"higress", "envoy"} {
		path := filepath.Join(dir, tag+".wasm")
		cmd := exec.CommandContext(ctx, "go", "build", "-tags", tag, "-buildmode=c-shared", "-o", path,
			"./testdata/guest")
		cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
		if text, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%w\n%s", err, text)
		}
		if out[tag], err = os.ReadFile(path); err != nil {
			return nil, err
		}
	}
	return out, nil
})

func guest(tb testing.TB, tag string) []byte {
	tb.Helper()
	g, err := guests()
	if err != nil {
		tb.Fatal(err)
	}
	return g[tag]
}

const (
	host1 = "10.0.0.1:8000"
	host2 = "10.0.0.2:8000"
	host3 = "10.0.0.3:8000"
)

// start runs the guest with two healthy endpoints in cluster llm.
func start(tb testing.TB, opts Options) *Gateway {
	tb.Helper()
	if opts.Wasm == nil {
		opts.Wasm = guest(tb, "higress")
	}
	g := Start(tb, opts)
	c := g.Cluster("llm")
	c.Add(host1)
	c.Add(host2)
	return g
}

// script sends a POST with a body and that script.
func script(g *Gateway, script string) *Stream {
	return g.Worker(0).Request("POST", "/v1/chat/completions", `{"a":1}`, "x-script", script)
}

// guestLog returns what guests logged, without the lines of their start.
func guestLog(g *Gateway) []string {
	var out []string
	for _, e := range g.Logs(LogInfo) {
		if e.Level == LogInfo && !strings.HasPrefix(e.Text, "start ") {
			out = append(out, strings.TrimSpace(e.Text))
		}
	}
	return out
}

func wantLog(tb testing.TB, g *Gateway, want ...string) {
	tb.Helper()
	if got := guestLog(g); !slices.Equal(got, want) {
		tb.Errorf("the guest logged\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// last returns the last log line of an operation.
func last(tb testing.TB, g *Gateway, op string) string {
	tb.Helper()
	lines := guestLog(g)
	for i := len(lines) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(lines[i], op+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	tb.Fatalf("the guest logged nothing of %s: %q", op, lines)
	return ""
}

// violated takes the violations and fails the test unless exactly one was left that contains text.
func violated(tb testing.TB, g *Gateway, text string) {
	tb.Helper()
	if v := g.TakeViolations(); len(v) != 1 || !strings.Contains(v[0], text) {
		tb.Errorf("violations %q, want one with %q", v, text)
	}
}

func onceEach(tb testing.TB, s *Stream) {
	tb.Helper()
	if c := s.Callbacks; c.Log != 1 || c.Done != 1 || c.Delete != 1 || !s.Ended {
		tb.Errorf("%s: log, done, delete = %+v, ended %v; want once each", s, c, s.Ended)
	}
}
