package redisserver

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/resp"
)

// TestCluster takes one cluster of each version through its life.
func TestCluster(t *testing.T) {
	each(t, func(t *testing.T, version string) {
		t.Parallel() // two seconds of each pass before a new cluster takes writes
		c := StartClusterT(t, 3, Options{Version: version})
		t.Run("slots", func(t *testing.T) { testSlots(t, c) })
		t.Run("owners", func(t *testing.T) { testOwners(t, c) })
		t.Run("migration steps", func(t *testing.T) { testMigrationSteps(t, c, version) })
		t.Run("migration under load", func(t *testing.T) { testMigrationUnderLoad(t, c) })
	})
}

func testSlots(t *testing.T, c *Cluster) {
	for _, key := range []string{
		"", "a", "123456789", "{a}b", "b{a}c", "{}a", "a{}{b}", "{{a}}b", "{a", "a}b{c", "\xff\x00",
		"warmgate:4:{llm}:table",
	} {
		reply, err := c.Servers()[0].Do("CLUSTER", "KEYSLOT", key)
		if err != nil {
			t.Fatal(err)
		}
		if got := Slot(key); got != reply.Integer() {
			t.Errorf("%q: slot %d, CLUSTER KEYSLOT returns %d", key, got, reply.Integer())
		}
	}
}

func testOwners(t *testing.T, c *Cluster) {
	if len(c.Servers()) != 3 {
		t.Fatalf("servers: %v", c.Servers())
	}
	for i, key := range []string{"a", "b", "c", "d", "e", "f"} {
		slot := Slot(key)
		for j, s := range c.Servers() {
			_, err := s.Do("SET", key, i)
			if j == c.Owner(slot) {
				if err != nil {
					t.Errorf("%s at its owner: %v", key, err)
				}
				continue
			}
			want := fmt.Sprintf("MOVED %d %s", slot, c.Servers()[c.Owner(slot)].Addr())
			if err == nil || err.Error() != want {
				t.Errorf("%s elsewhere: %v, want %s", key, err, want)
			}
		}
	}
	s := c.Servers()[c.Owner(Slot("a"))]
	if _, err := s.Do("MSET", "a", 1, "b", 2); !refused(err, "CROSSSLOT") {
		t.Errorf("two slots at once: %v", err)
	}
}

// testMigrationSteps checks what clients get at each step of a migration.
func testMigrationSteps(t *testing.T, c *Cluster, version string) {
	slot := Slot("{x}")
	from := c.Owner(slot)
	to := (from + 1) % len(c.Servers())
	old, next := c.Servers()[from], c.Servers()[to]
	must(t, old, "SET", "{x}1", "v")

	m, err := c.StartMigration(slot, to)
	if err != nil {
		t.Fatal(err)
	}
	if got := must(t, old, "GET", "{x}1"); got != "v" {
		t.Errorf("a key that has not moved: %q", got)
	}
	ask := fmt.Sprintf("ASK %d %s", slot, next.Addr())
	if _, err := old.Do("SET", "{x}2", "v"); err == nil || err.Error() != ask {
		t.Errorf("a new key: %v, want %s", err, ask)
	}
	split := "TRYAGAIN"
	if version == Redis62 {
		split = "ASK"
	}
	if _, err := old.Do("MGET", "{x}1", "{x}2"); !refused(err, split) {
		t.Errorf("one key here, the other nowhere: %v, want %s", err, split)
	}
	asking, err := next.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer asking.Close()
	if _, err := asking.Do("SET", "{x}2", "w"); !refused(err, "MOVED") {
		t.Errorf("the new server without ASKING: %v", err)
	}
	asking.Do("ASKING")
	if _, err := asking.Do("SET", "{x}2", "w"); err != nil {
		t.Errorf("the new server with ASKING: %v", err)
	}

	if err := errors.Join(m.MoveKeys(), m.Finish()); err != nil {
		t.Fatal(err)
	}
	if c.Owner(slot) != to {
		t.Errorf("the owner is %d", c.Owner(slot))
	}
	if got := must(t, next, "MGET", "{x}1", "{x}2"); got != "[v w]" {
		t.Errorf("after the move: %s", got)
	}
	if _, err := old.Do("GET", "{x}1"); !refused(err, "MOVED") {
		t.Errorf("the old server after the move: %v", err)
	}
	if _, err := c.StartMigration(slot, to); err == nil {
		t.Error("a slot moves to its owner")
	}
}

// follow sends one command of a key and follows redirections, as a client of a cluster does.
func follow(c *Cluster, at *Server, args ...any) (resp.Value, error) {
	byAddr := map[string]*Server{}
	for _, s := range c.Servers() {
		byAddr[s.Addr()] = s
	}
	var ask bool
	for deadline := time.Now().Add(replyTimeout); ; {
		conn, err := at.Dial()
		if err != nil {
			return resp.Value{}, err
		}
		if ask {
			conn.Do("ASKING")
		}
		reply, err := conn.Do(args...)
		conn.Close()
		if err == nil || time.Now().After(deadline) {
			return reply, err
		}
		switch words := strings.Fields(err.Error()); words[0] {
		case "MOVED", "ASK":
			at, ask = byAddr[words[2]], words[0] == "ASK"
		case "TRYAGAIN":
		default:
			return reply, err
		}
	}
}

// testMigrationUnderLoad moves a slot with many keys around a cluster while a client counts in it, and loses no count.
func testMigrationUnderLoad(t *testing.T, c *Cluster) {
	slot := Slot("{y}")
	for i := range 250 { // more than two batches
		must(t, c.Servers()[c.Owner(slot)], "SET", "{y}"+strconv.Itoa(i), "v")
	}
	var stop atomic.Bool
	type result struct {
		n   int
		err error
	}
	done := make(chan result, 1)
	go func() {
		n := 0
		for !stop.Load() {
			if _, err := follow(c, c.Servers()[0], "INCR", "{y}n"); err != nil {
				done <- result{n, err}
				return
			}
			n++
		}
		done <- result{n, nil}
	}()
	for range 3 {
		m, err := c.StartMigration(slot, (c.Owner(slot)+1)%3)
		if err == nil {
			err = errors.Join(m.MoveKeys(), m.Finish())
		}
		if err != nil {
			t.Error(err)
		}
	}
	stop.Store(true)
	counted := <-done
	if counted.err != nil {
		t.Fatal(counted.err)
	}
	owner := c.Servers()[c.Owner(slot)]
	if got := must(t, owner, "GET", "{y}n"); got != strconv.Itoa(counted.n) {
		t.Errorf("the counter is %s after %d increments", got, counted.n)
	}
	if got := must(t, owner, "CLUSTER", "COUNTKEYSINSLOT", slot); got != "251" {
		t.Errorf("the owner has %s keys, want 251", got)
	}
}

// TestClusterDown kills one master: the others refuse commands until it is back.
func TestClusterDown(t *testing.T) {
	c := StartClusterT(t, 3, Options{Config: []string{"cluster-node-timeout 300"}})
	s := c.Servers()[c.Owner(Slot("a"))]
	other := c.Servers()[(c.Owner(Slot("a"))+1)%3]
	if err := other.Kill(); err != nil {
		t.Fatal(err)
	}
	await(t, func() bool { _, err := s.Do("GET", "a"); return refused(err, "CLUSTERDOWN") })
	if err := other.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, func() bool { _, err := s.Do("GET", "a"); return err == nil })
}

// await waits for what happens within seconds.
func await(t *testing.T, happened func() bool) {
	t.Helper()
	for deadline := time.Now().Add(startTimeout); !happened(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not happen")
		}
	}
}

func TestStartClusterErrors(t *testing.T) {
	for name, c := range map[string]struct {
		masters int
		options Options
	}{
		"no master":     {0, Options{}},
		"one folder":    {2, Options{Dir: t.TempDir()}},
		"bad directive": {2, Options{Config: []string{"no-such-directive 1"}}},
	} {
		if cluster, err := StartCluster(t.Context(), c.masters, c.options); err == nil {
			cluster.Stop()
			t.Errorf("%s: no error", name)
		}
	}
}
