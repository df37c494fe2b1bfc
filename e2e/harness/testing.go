package harness

import (
	"bytes"
	"context"
	"io"
	"testing"
)

// StartT is Start for tests: it fails the test when Envoy does not start, stops Envoy when the test ends and then, if the
// test has failed, shows the end of Envoy's log.
func StartT(t testing.TB, o Options) *Gateway {
	t.Helper()
	// Not t.Context(): it ends before the cleanup below has read the log.
	g, err := Start(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("Envoy's log ends:\n%s", tail(g.Logs(), 4000))
		}
		if err := g.Stop(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// LogWriter returns a writer to the test's log, one entry for each write.
func LogWriter(t testing.TB) io.Writer { return logWriter{t} }

type logWriter struct{ t testing.TB }

func (w logWriter) Write(p []byte) (int, error) {
	w.t.Logf("%s", bytes.TrimSpace(p))
	return len(p), nil
}
