package page

import (
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/warmgate/warmgate/internal/live"
	livepage "github.com/warmgate/warmgate/internal/live/page"
)

// patience is how long a browser may run: what hangs is ended, on a busy machine, too.
const patience = 5 * time.Minute

// chromium returns the browser's program, or skips the test.
func chromium(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("no chromium in PATH: build/chromium.sh installs it")
		}
		t.Skip("no chromium in PATH: build/chromium.sh installs it")
	}
	return path
}

// open starts a browser for a test. It has a profile of its own, and the given flags beside those
// it needs here.
func open(t *testing.T, flags ...chromedp.ExecAllocatorOption) browser {
	t.Helper()
	options := append([]chromedp.ExecAllocatorOption{
		chromedp.ExecPath(chromium(t)), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.NoFirstRun, chromedp.WindowSize(1440, 1100),
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true), chromedp.Flag("hide-scrollbars", true),
		chromedp.Flag("accept-lang", "en-US"), chromedp.Flag("lang", "en-US"), chromedp.Env("TZ=UTC"),
	}, flags...)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := browser{ctx, new(atomic.Bool)}
	chromedp.ListenTarget(ctx, func(event any) {
		if b.expectsErrors.Load() {
			return
		}
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			t.Errorf("the page has thrown %v", e.ExceptionDetails)
		case *log.EventEntryAdded:
			if e.Entry.Level == log.LevelError {
				t.Errorf("the browser says: %s %s", e.Entry.Text, e.Entry.URL)
			}
		}
	})
	b.do(t)
	return b
}

// browser is a browser with one page. An error that the page or the browser reports fails the test, unless it expects
// some.
type browser struct {
	ctx           context.Context
	expectsErrors *atomic.Bool
}

// do has the browser do something.
func (b browser) do(t *testing.T, actions ...chromedp.Action) {
	t.Helper()
	if err := chromedp.Run(b.ctx, actions...); err != nil {
		t.Fatal(err)
	}
}

// serve serves a page on a port of its own.
func serve(t *testing.T, facts livepage.Facts) (s *livepage.Server, url string) {
	t.Helper()
	s = livepage.New(facts, "")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }() // until it is closed
	t.Cleanup(func() { _ = server.Close() })
	return s, "http://" + l.Addr().String() + "/"
}

// show shows frames one after another.
func show(t *testing.T, s *livepage.Server, frames ...live.Frame) {
	t.Helper()
	for _, f := range frames {
		if err := s.Show(f); err != nil {
			t.Fatal(err)
		}
	}
}

// eval returns what an expression is in the page. A promise is waited for.
func eval[T any](t *testing.T, b browser, expression string) (value T) {
	t.Helper()
	b.do(t, chromedp.Evaluate(expression, &value, func(p *runtime.EvaluateParams) *runtime.EvaluateParams {
		return p.WithAwaitPromise(true)
	}))
	return value
}

// until waits for an expression to be true in the page, for as long as the browser may run.
func (b browser) until(t *testing.T, expression string) {
	t.Helper()
	for !eval[bool](t, b, "Boolean("+expression+")") {
		if t.Failed() {
			t.FailNow() // it would not come
		}
		time.Sleep(50 * time.Millisecond)
	}
}
