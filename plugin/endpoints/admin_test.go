package endpoints

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/process"
	"github.com/warmgate/warmgate/plugin/process/processtest"
)

const pollEvery = time.Second

// clustersPage is what the admin interface answers for the cluster llm with endpoints of the given health flags.
func clustersPage(flags ...string) []byte {
	var b strings.Builder
	b.WriteString("llm::default_priority::max_connections::1024\n")
	for i, f := range flags {
		fmt.Fprintf(&b, "llm::10.0.0.%d:8000::health_flags::%s\nllm::10.0.0.%d:8000::weight::1\n", i+1, f, i+1)
	}
	return []byte(b.String())
}

// adminVMs returns the pollers of n VMs of one process; the first is the main thread's, the others serve requests.
func adminVMs(t *testing.T, n int) (*processtest.KV, []*adminPoller) {
	t.Helper()
	kv := &processtest.KV{Cells: map[string]processtest.Cell{}}
	if err := process.Prepare(kv); err != nil {
		t.Fatal(err)
	}
	var out []*adminPoller
	for i := range n {
		a := newAdminPoller(kv, uint64(i+1))
		a.serves = i > 0
		out = append(out, a)
	}
	return kv, out
}

// learn has a VM poll, unless it may not, and get the page.
func learn(t *testing.T, a *adminPoller, now time.Duration, page []byte) {
	t.Helper()
	if !a.due(now, pollEvery) {
		t.Fatalf("VM %d does not poll", a.leader.ID)
	}
	if problem := a.received(now, page, "200"); problem != "" {
		t.Fatal(problem)
	}
}

// states returns the states of the cluster's endpoints as text, "none" when they are unknown.
func states(a *adminPoller, now time.Duration) string {
	a.refresh(now)
	v := a.views["llm"]
	if v == nil {
		return "none"
	}
	var out []string
	for _, e := range v.Endpoints {
		out = append(out, e.State.String())
	}
	return strings.Join(out, " ")
}

func TestOneVMPolls(t *testing.T) {
	_, vms := adminVMs(t, 3)
	now := time.Hour
	polls := map[uint64]int{}
	for range 100 {
		for i := len(vms) - 1; i >= 0; i-- { // the main thread's comes last, as if its tick were late
			if a := vms[i]; a.due(now, pollEvery) {
				polls[a.leader.ID]++
				a.received(now, clustersPage("healthy"), "200")
			}
		}
		now += process.TickPeriod
	}
	if len(polls) != 1 || polls[vms[2].leader.ID] < 9 || polls[vms[2].leader.ID] > 11 {
		t.Errorf("polls by VM in 10 s: %v, want about 10 by one", polls)
	}
}

// A worker that is made while the main thread leads lets that lead, and takes over only well after it has stopped
// publishing.
func TestLeadership(t *testing.T) {
	_, vms := adminVMs(t, 3)
	main, worker := vms[0], vms[1]
	now := time.Hour
	learn(t, main, now, clustersPage("healthy"))
	term := process.LeaderTerms * pollEvery
	for _, c := range []struct {
		vm   *adminPoller
		at   time.Duration
		want bool
	}{
		{main, pollEvery - 1, false},
		{worker, pollEvery, false},
		{worker, term, false},
		{worker, term + leaderSlack - 1, false},
		{worker, term + leaderSlack, true},
		{main, term + leaderSlack, false},
		{vms[2], term + leaderSlack + pollEvery, false},
		{main, 2*term + leaderSlack - 1, false},
		{main, 2*term + leaderSlack, true}, // the main thread needs no slack
	} {
		if got := c.vm.due(now+c.at, pollEvery); got != c.want {
			t.Errorf("VM %d polls at %v: %v, want %v", c.vm.leader.ID, c.at, got, c.want)
		}
		c.vm.busy = false
	}
}

func TestNoSecondPollWhileOneIsOpen(t *testing.T) {
	_, vms := adminVMs(t, 1)
	now := time.Hour
	if !vms[0].due(now, pollEvery) {
		t.Fatal("there is no first poll")
	}
	if vms[0].due(now+3*time.Second, pollEvery) {
		t.Error("a second question while the first is open")
	}
	if !vms[0].due(now+5*time.Second, pollEvery) {
		t.Error("a question that was never answered blocks for ever")
	}
}

func TestFirstPollComesAtOnce(t *testing.T) {
	_, vms := adminVMs(t, 1)
	if !vms[0].due(time.Millisecond, pollEvery) { // the machine has just started
		t.Error("the first question waits for an interval")
	}
}

func TestLosingTheSwapIsNoLeadership(t *testing.T) {
	kv, vms := adminVMs(t, 2)
	kv.OnSet = func(key string, _ []byte, cas uint32) error {
		if key == process.KeyLeader && cas != 0 {
			return lb.ErrMismatch
		}
		return nil
	}
	if vms[0].due(time.Hour, pollEvery) {
		t.Error("a VM that lost the swap polls")
	}
}

func TestFollowsTheLeader(t *testing.T) {
	_, vms := adminVMs(t, 2)
	main, worker := vms[0], vms[1]
	now := time.Hour
	if got := states(worker, now); got != "none" {
		t.Errorf("before anything is known: %s", got)
	}
	learn(t, main, now, clustersPage("healthy", "/failed_active_hc"))
	if got := states(worker, now); got != "healthy unhealthy" {
		t.Errorf("learned %s", got)
	}
	before := worker.views["llm"]
	now += pollEvery
	learn(t, main, now, append([]byte("other::10.1.0.1:80::health_flags::healthy\n"),
		clustersPage("healthy", "/failed_active_hc")...))
	worker.refresh(now)
	if worker.views["llm"] != before {
		t.Error("the view of a cluster is another one although only another cluster has changed")
	}
	if worker.views["other"] == nil {
		t.Error("the new cluster is not known")
	}
	now += pollEvery
	learn(t, main, now, clustersPage("healthy", "healthy"))
	if got := states(worker, now); got != "healthy healthy" {
		t.Errorf("after the recovery: %s", got)
	}
	if before.Endpoints[1].State != lb.Unhealthy {
		t.Error("a published view was changed")
	}
	if worker.views["other"] != nil {
		t.Error("a cluster that has left is still known")
	}
	now += pollEvery
	learn(t, main, now, clustersPage())
	if got := states(worker, now); got != "" {
		t.Errorf("of a cluster without endpoints: %s", got)
	}
}

// A new leader replaces what the previous one has published, and so does the first one when it leads again, whatever
// each knew before.
func TestLeadersTakeTurns(t *testing.T) {
	_, vms := adminVMs(t, 3)
	now := time.Hour
	for i, flags := range []string{"healthy", "/failed_active_hc", "healthy", "/failed_active_hc"} {
		learn(t, vms[i%2], now, clustersPage(flags))
		want := map[string]string{"healthy": "healthy", "/failed_active_hc": "unhealthy"}[flags]
		if got := states(vms[2], now); got != want {
			t.Errorf("after turn %d: %s, want %s", i, got, want)
		}
		now += process.LeaderTerms*pollEvery + leaderSlack
	}
}

func TestStaleEndpointsAreForgotten(t *testing.T) {
	_, vms := adminVMs(t, 2)
	now := time.Hour
	learn(t, vms[0], now, clustersPage("healthy"))
	for _, c := range []struct {
		age  time.Duration
		want string
	}{{staleAfter, "healthy"}, {staleAfter + 1, "none"}} {
		if got := states(vms[1], now+c.age); got != c.want {
			t.Errorf("%v after the last answer: %s, want %s", c.age, got, c.want)
		}
	}
	now += time.Minute
	learn(t, vms[0], now, clustersPage("healthy"))
	if got := states(vms[1], now); got != "healthy" {
		t.Errorf("when the admin interface is back: %s", got)
	}
}

// While the admin interface hangs, the gateway cannot learn of other endpoints either. The known ones stay valid for a
// limited time, and a list that was stale before does not become valid again.
func TestEndpointsOutlastAGatewayThatHangs(t *testing.T) {
	_, vms := adminVMs(t, 3)
	start := time.Hour
	learn(t, vms[0], start, clustersPage("healthy"))
	leader := vms[1] // the VM of a worker, because the main thread hangs
	leader.serves = true
	for now := start + pollEvery; now < start+2*hungAfter; now += pollEvery {
		if leader.due(now, pollEvery) && leader.received(now, nil, timedOut) == "" {
			t.Fatal("no complaint")
		}
		want := "healthy"
		if now > start+staleAfter+hungAfter {
			want = "none"
		}
		if got := states(vms[2], now); got != want {
			t.Fatalf("%v after the last answer: %s, want %s", now-start, got, want)
		}
	}
	now := start + time.Hour
	learn(t, vms[0], now, clustersPage("healthy"))
	now += staleAfter + 1
	for range 3 {
		leader.received(now, nil, timedOut)
		if got := states(vms[2], now); got != "none" {
			t.Errorf("a stale list came back: %s", got)
		}
		now += pollEvery
	}
}

// With a long poll interval the endpoints do not expire between two polls.
func TestLongPollInterval(t *testing.T) {
	for _, interval := range []time.Duration{pollEvery, 5 * time.Second, 30 * time.Second, time.Minute} {
		_, vms := adminVMs(t, 2)
		now := time.Hour
		for range 200 {
			if vms[0].due(now, interval) {
				vms[0].received(now, clustersPage("healthy"), "200")
			}
			if got := states(vms[1], now); got != "healthy" {
				t.Fatalf("polled every %v, %v after the start: %s", interval, now-time.Hour, got)
			}
			now += time.Second
		}
		if got := states(vms[1], now+max(staleAfter, staleTerms*interval)); got != "none" {
			t.Errorf("polled every %v: %s long after the last answer", interval, got)
		}
	}
}

func TestAnswersThatAreNone(t *testing.T) {
	for _, c := range []struct{ name, body, status string }{
		{"an error", "", "503"},
		{"no answer", "", ""},
		{"no body", "", "200"},
		{"another page", "<html>not found</html>", "200"},
		{"more than can be read", "", TooLong},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, vms := adminVMs(t, 2)
			now := time.Hour
			learn(t, vms[0], now, clustersPage("healthy"))
			now += pollEvery
			if !vms[0].due(now, pollEvery) {
				t.Fatal("not due")
			}
			if problem := vms[0].received(now, []byte(c.body), c.status); problem == "" {
				t.Error("nothing was found wrong with it")
			}
			if got := states(vms[1], now); got != "healthy" {
				t.Errorf("the endpoints are now %s", got)
			}
			if got := states(vms[1], now+staleAfter); got != "none" {
				t.Errorf("it renewed the endpoints: %s", got)
			}
			if !vms[0].due(now+pollEvery, pollEvery) {
				t.Error("it is not polled again")
			}
		})
	}
}

// A problem that lasts is logged twice a minute, a new one and one that is back at once.
func TestProblemsAreLoggedOnce(t *testing.T) {
	a := newAdminPoller(&processtest.KV{Cells: map[string]processtest.Cell{}}, 1)
	for i, step := range []struct {
		at      time.Duration
		problem string
		want    bool
	}{
		{0, "", false},
		{1, "a", true},
		{2, "a", false},
		{LogEvery, "a", false},
		{1 + LogEvery, "a", true},
		{2 + LogEvery, "b", true},
		{3 + LogEvery, "a", true},
		{4 + LogEvery, "", false},
		{5 + LogEvery, "a", true},
		{6 + LogEvery, "", false},
		{9 * LogEvery, "", false},
	} {
		if got := a.worthLogging(time.Hour+step.at, step.problem); got != step.want {
			t.Errorf("step %d: %q is news: %t", i, step.problem, got)
		}
	}
}

func TestDamagedDigest(t *testing.T) {
	kv, vms := adminVMs(t, 2)
	now := time.Hour
	learn(t, vms[0], now, clustersPage("healthy"))
	states(vms[1], now)
	for _, damage := range []string{"", "\x00", "\x01\xff\xff\xff\xff", string(clustersPage("healthy"))} {
		if err := kv.Set(process.KeyDigest, []byte(damage), 0); err != nil {
			t.Fatal(err)
		}
		if got := states(vms[1], now); got != "healthy" {
			t.Errorf("%.20q: the endpoints are now %s", damage, got)
		}
	}
	now += pollEvery
	learn(t, vms[0], now, clustersPage("/failed_active_hc"))
	if got := states(vms[1], now); got != "unhealthy" {
		t.Errorf("a new digest after the damage: %s", got)
	}
}

// A new VM need not wait for its first tick.
func TestViewOfANewVM(t *testing.T) {
	kv, vms := adminVMs(t, 1)
	now := time.Hour
	learn(t, vms[0], now, clustersPage("healthy"))
	made := newAdminPoller(kv, 9)
	v := made.view(now, "llm")
	if v == nil || len(v.Endpoints) != 1 {
		t.Fatalf("it knows %+v", v)
	}
	if made.view(now, "llm") != v {
		t.Error("the same view was made twice")
	}
}

func TestPublishingFails(t *testing.T) {
	for _, key := range []string{process.KeyDigest, process.KeyBreakers, process.KeyFresh} {
		kv, vms := adminVMs(t, 1)
		kv.OnSet = func(k string, _ []byte, _ uint32) error {
			if k == key {
				return fmt.Errorf("no room")
			}
			return nil
		}
		if !vms[0].due(time.Hour, pollEvery) {
			t.Fatal("not due")
		}
		if problem := vms[0].received(time.Hour, clustersPage("healthy"), "200"); !strings.Contains(problem,
			"no room") {
			t.Errorf("%s cannot be written, and the problem is %q", key, problem)
		}
	}
}
