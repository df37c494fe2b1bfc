package redisserver

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/wait"
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

// StartReplicaT starts a replica of a server, as StartT does, and waits until it is linked.
func StartReplicaT(t testing.TB, master *Server) *Server {
	t.Helper()
	replica := StartT(t, Options{Config: []string{"replicaof 127.0.0.1 " + strconv.Itoa(master.Port())}})
	check(t, wait.Until(context.Background(), 10*time.Millisecond, func() error {
		info, err := replica.Info("replication")
		check(t, err)
		if status := info["master_link_status"]; status != "up" {
			return errors.New("the link to the master is " + status)
		}
		return nil
	}))
	return replica
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
