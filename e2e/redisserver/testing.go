package redisserver

import (
	"context"
	"errors"
	"testing"
)

// StartT is Start for tests: it skips the test when the version is not to be had on this machine, fails it when the
// server does not start, and stops the server when the test ends.
func StartT(t testing.TB, o Options) *Server {
	t.Helper()
	// Not t.Context(): it ends before the cleanup below has read the log.
	s, err := Start(context.Background(), o)
	check(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s: the server's log:\n%s", s.Addr(), s.Logs())
		}
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// StartClusterT is StartCluster for tests, as StartT is Start.
func StartClusterT(t testing.TB, masters int, o Options) *Cluster {
	t.Helper()
	c, err := StartCluster(context.Background(), masters, o)
	check(t, err)
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func check(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}
