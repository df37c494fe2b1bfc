package redisclient_test

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/storetest"
	"github.com/warmgate/warmgate/redisclient"
)

// clusterTransport is a transport to one node of a cluster, which reaches the others when it is redirected.
type clusterTransport struct {
	t     testing.TB
	first string
	wires map[string]*syncTransport
	sent  map[string]int
}

func newClusterTransport(t testing.TB, c *redisserver.Cluster, first int) *clusterTransport {
	n := &clusterTransport{t: t, wires: map[string]*syncTransport{}, sent: map[string]int{}}
	for i, s := range c.Servers() {
		n.wires[s.Addr()] = dial(t, s)
		if i == first {
			n.first = s.Addr()
		}
	}
	return n
}

// Do implements redisclient.Transport.
func (n *clusterTransport) Do(now time.Duration, cmd []byte, done redisclient.Done) {
	n.DoAt(now, n.first, false, cmd, done)
}

// DoAt implements redisclient.Redirector.
func (n *clusterTransport) DoAt(now time.Duration, node string, asking bool, cmd []byte, done redisclient.Done) {
	if node == "" {
		node = n.first
	}
	w := n.wires[node]
	if w == nil {
		n.t.Fatalf("sent to %s, which is no node", node)
	}
	n.sent[node]++
	if asking {
		w.roundTrip(redisclient.AppendCommand(nil, "ASKING"))
	}
	w.Do(now, cmd, done)
}

// A scope moves from node to node while there is traffic. Nothing is counted twice or lost; while its keys are being
// moved, requests may fall back.
func TestCluster(t *testing.T) {
	for _, version := range redisserver.Versions() {
		t.Run(version, func(t *testing.T) {
			t.Parallel() // most of the time nodes wait for each other
			testCluster(t, version)
		})
	}
}

func testCluster(t *testing.T, version string) {
	cluster := redisserver.StartClusterT(t, 3, redisserver.Options{Version: version})
	slot := redisserver.Slot(redisclient.KeysOf("llm").Table)
	home := cluster.Owner(slot)
	load := &clusterLoad{t: t, cluster: cluster, slot: slot, kv: newMemory()}
	for owner := range 3 { // each is configured with another node
		load.join(uint64(owner+1), owner)
	}
	load.run(60)
	if load.refused > 0 {
		t.Fatalf("%d of %d refused before anything moved: %v", load.refused, load.granted+load.refused, load.last)
	}
	load.audit(home)
	for _, to := range []int{(home + 1) % 3, (home + 2) % 3, home} {
		load.move(to)
	}
	load.drain()
	t.Logf("%d granted, %d refused, the last for %v", load.granted, load.refused, load.last)
	if load.refused == 0 {
		t.Error("a divided scope refused nothing: the moves test little")
	}
}

// clusterLoad is load of several owners on one scope.
type clusterLoad struct {
	t       *testing.T
	cluster *redisserver.Cluster
	slot    int
	kv      *memory
	stores  []*redisclient.Store
	nodes   []*clusterTransport
	held    []map[lb.LeaseID]string
	next    lb.LeaseID
	now     time.Duration
	granted int
	refused int
	last    error
}

func (l *clusterLoad) join(owner uint64, first int) {
	n := newClusterTransport(l.t, l.cluster, first)
	l.nodes = append(l.nodes, n)
	l.stores = append(l.stores, redisclient.New(n, redisclient.Options{
		Owner: owner, TTL: storetest.TTL, Timeout: time.Second, KV: l.kv,
	}))
	l.held = append(l.held, map[lb.LeaseID]string{})
}

// run has every owner reserve and release n times.
func (l *clusterLoad) run(n int) {
	even := storetest.Even(storetest.Addrs(4))
	for range n {
		for i, s := range l.stores {
			l.next++
			id, plan := l.next, even
			if id%2 == 0 {
				plan = storetest.WithPrompt(even, 0.1, storetest.Blocks(1, uint64(id%5), uint64(id%3), uint64(id%2)))
				plan.Tokens = 0
			}
			s.Reserve(l.now, id, plan, func(g lb.Grant, err error) {
				if err != nil {
					l.refused++
					l.last = err
					return
				}
				l.granted++
				l.held[i][id] = plan.Candidates[g.Index].Addr
			})
			if len(l.held[i]) > 10 {
				for old := range l.held[i] {
					s.Release(l.now, old)
					delete(l.held[i], old)
					break
				}
			}
		}
	}
}

func (l *clusterLoad) heartbeat() {
	l.now += time.Second
	for _, s := range l.stores {
		if err := s.Heartbeat(l.now); err != nil {
			l.t.Fatal(err)
		}
		s.Expire(l.now)
	}
}

// move migrates the slot step by step, with load between the steps.
func (l *clusterLoad) move(to int) {
	l.t.Helper()
	m, err := l.cluster.StartMigration(l.slot, to)
	if err != nil {
		l.t.Fatal(err)
	}
	l.run(3)
	l.heartbeat()
	l.moveOne(to)
	l.run(3)
	l.heartbeat()
	if err := m.MoveKeys(); err != nil {
		l.t.Fatal(err)
	}
	l.run(3)
	l.heartbeat()
	if err := m.Finish(); err != nil {
		l.t.Fatal(err)
	}
	for range 3 {
		l.heartbeat()
	}
	before := l.refused
	l.run(20)
	if l.refused != before {
		l.t.Errorf("%d refused after the move: %v", l.refused-before, l.last)
	}
	l.heartbeat()
	l.audit(to)
}

// moveOne moves the table alone, so that the scope is divided.
func (l *clusterLoad) moveOne(to int) {
	from := l.cluster.Servers()[l.cluster.Owner(l.slot)]
	port := l.cluster.Servers()[to].Port()
	if _, err := from.Do("MIGRATE", "127.0.0.1", port, redisclient.KeysOf("llm").Table, 0, 2000); err != nil {
		l.t.Fatal(err)
	}
}

// audit expects the totals at the node to be what the owners hold.
func (l *clusterLoad) audit(at int) {
	l.t.Helper()
	want := map[string]lb.Load{}
	for _, held := range l.held {
		for _, addr := range held {
			want[addr] = lb.Load{Requests: want[addr].Requests + 1}
		}
	}
	wantLoads(l.t, dial(l.t, l.cluster.Servers()[at]), want)
}

func (l *clusterLoad) drain() {
	for i, s := range l.stores {
		for id := range l.held[i] {
			s.Release(l.now, id)
		}
		l.held[i] = map[lb.LeaseID]string{}
	}
	l.audit(l.cluster.Owner(l.slot))
}
