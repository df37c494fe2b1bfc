package core

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/memstore"
	"github.com/warmgate/warmgate/plugin/regions"
	"github.com/warmgate/warmgate/plugin/stats"
	"github.com/warmgate/warmgate/plugin/stores"
)

const euServers = "eu-servers"

// adopting lets the region us adopt the servers of eu, of which it sees so many, after a second without an answer, for
// two more seconds of answers.
func adopting(servers int) func(d *fakeDriver, config string) string {
	return func(d *fakeDriver, config string) string {
		if !strings.Contains(config, `"name":"us","cluster"`) {
			return config
		}
		n := len(d.endpoints)
		list := make([]streamtest.Endpoint, n+servers)
		d.SetEndpoints(list)
		for i := range servers {
			d.sites[euServers] = append(d.sites[euServers], n+i)
		}
		return adoptingConfig(config)
	}
}

func adoptingConfig(config string) string {
	return strings.NewReplacer(`"rtt":"20ms"`, `"rtt":"20ms","adopt":{"cluster":"eu-servers"}`,
		`"probe_interval"`, `"gone":"1s","steady":"2s","probe_interval"`).Replace(config)
}

// startAdopting returns the gateway of a region with so many endpoints that has adopted as many others.
func startAdopting(t *testing.T, here, there int, members string) (us, eu *fakeDriver) {
	t.Helper()
	us, eu = newRegions(t, here, 1, members, adopting(there))
	us.peers = nil
	pass(3*time.Second, us, eu)
	us.wantAdopted(1)
	return us, eu
}

func (d *fakeDriver) wantAdopted(want uint64) {
	d.t.Helper()
	d.advance(stores.HeartbeatPeriod)
	if got := d.Gauge(stats.Adopted + ";region=eu"); got != want {
		d.t.Fatalf("adopted: %d, want %d", got, want)
	}
}

// atAdopted returns how many requests are counted at each of the adopted servers.
func (d *fakeDriver) atAdopted() (counts []int64) {
	d.t.Helper()
	for _, i := range d.sites[euServers] {
		loads, err := memstore.New(d.kv, 1, stores.LeaseTTL).Loads(euServers, []string{d.Addr(i)}, nil)
		if err != nil {
			d.t.Fatal(err)
		}
		counts = append(counts, loads[0].Requests)
	}
	return counts
}

// wantAt fails the test unless the request is served, by an adopted server or by none of them.
func (s *fakeStream) wantAt(adopted bool) {
	s.process.t.Helper()
	cluster := "llm"
	if adopted {
		cluster = euServers
	}
	hop := s.header(regions.HopHeaders[0]) + s.header(regions.HopHeaders[1])
	if s.cluster != cluster || s.Upstream() < 0 || hop != "" {
		s.process.t.Fatalf("sent to %q, endpoint %d, held %v, with the hop %q: %+v", s.cluster, s.Upstream(), s.Held(),
			hop, s.Result())
	}
}

// While a region's gateways are gone, its servers are served as this region's own: by plan, with leases, caps and a
// queue. Nothing of it remains.
func TestServesAdopted(t *testing.T) {
	us, _ := startAdopting(t, 1, 2, "")
	home := us.client(0, regionChat)
	home.wantAt(false)
	a, b := us.client(0, regionChat), us.client(1, regionChat)
	for _, c := range []*fakeStream{a, b} {
		c.wantAt(true)
		if c.Override != us.Addr(c.Upstream()) {
			t.Errorf("steered to %q", c.Override)
		}
	}
	if got := us.atAdopted(); a.Upstream() == b.Upstream() || got[0] != 1 || got[1] != 1 {
		t.Errorf("%v are in flight at adopted servers", got)
	}
	waits := us.client(1, regionChat)
	us.advance(time.Second)
	us.wantWaiting(waits)
	a.Finish()
	us.advance(500 * time.Millisecond)
	waits.wantAt(true)
	for name, want := range map[string]string{
		"x-warmgate-region": "eu", "x-warmgate-reason": "adopted", "x-warmgate-host": us.Addr(a.Upstream()),
	} {
		if got := a.Result().Headers[name]; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for _, c := range []*fakeStream{b, waits, home} {
		c.Finish()
	}
	us.advance(time.Second)
	if got := us.metrics.decisions(); got["adopted"] != 3 || got["chosen"] != 1 || len(got) != 2 {
		t.Errorf("counted as %v", got)
	}
	const stat = stats.AtAdopted + ";region=eu;reason="
	if n := us.Counter(stat+"time") + us.Counter(stat+"prefix"); n != 3 {
		t.Errorf("%d requests at adopted servers", n)
	}
	log := strings.Join(us.access, "\n")
	want := "host=" + us.Addr(a.Upstream()) + " reason=adopted load=1 region=eu why=time"
	if !strings.Contains(log, want) {
		t.Errorf("the access log has no %q: %q", want, log)
	}
	us.emptiedInside()
	us.wantNoneWaits()
}

// Its servers are given back when a region's gateways have answered for a while, not before; one that comes and goes
// keeps its servers adopted.
func TestGivesBack(t *testing.T) {
	us, eu := startAdopting(t, 1, 1, "")
	home, peers := us.client(0, regionChat), map[string]*fakeProcess{"to-eu": eu.fakeProcess}
	for range 4 { // as long as it does not answer steadily
		us.peers = peers
		pass(time.Second, us, eu)
		c := us.client(0, regionChat)
		c.wantAt(true)
		c.Finish()
		us.peers = nil
		pass(time.Second, us, eu)
		us.wantAdopted(1)
	}
	us.peers = peers
	last := us.client(1, regionChat)
	last.wantAt(true)
	pass(4*time.Second, us, eu)
	us.wantAdopted(0)
	away := us.client(0, regionChat)
	if away.cluster != "to-eu" || away.header(regions.HopHeaders[0]) == "" {
		t.Errorf("given back, a request is sent to %q", away.cluster)
	}
	for _, c := range []*fakeStream{last, away, home} {
		c.Finish()
	}
	pass(time.Second, us, eu)
	us.emptiedInside()
}

// A push changes nothing of it, neither while servers are adopted nor while they are about to be given back.
func TestPushWhileAdopted(t *testing.T) {
	us, eu := startAdopting(t, 1, 1, "")
	push := func(buffer string) {
		t.Helper()
		if !us.configure(adoptingConfig(regionConfig("us", "eu", `,"queue_buffer":`+buffer))) {
			t.Fatal("refused")
		}
	}
	home := us.client(0, regionChat) // the configuration before lives on with it
	push("5")
	us.wantAdopted(1)
	c := us.client(1, regionChat)
	c.wantAt(true)
	c.Finish()
	us.peers = map[string]*fakeProcess{"to-eu": eu.fakeProcess}
	pass(time.Second, us, eu)
	push("6")
	pass(500*time.Millisecond, us, eu)
	us.wantAdopted(1)
	pass(1500*time.Millisecond, us, eu)
	us.wantAdopted(0)
	home.Finish()
	pass(time.Second, us, eu)
	us.emptiedInside()
}

// A region that only this one does not reach, and whose servers it does not reach either, gets nothing: each goes on
// alone.
func TestAdoptsNothingBehindAPartition(t *testing.T) {
	us, _ := startAdopting(t, 1, 2, "")
	for _, i := range us.sites[euServers] {
		us.endpoints[i].State = lb.Unhealthy
	}
	us.advance(time.Second)
	home, waits := us.client(0, regionChat), us.client(1, regionChat)
	us.advance(time.Second)
	us.wantWaiting(waits)
	home.Finish()
	us.advance(time.Second)
	waits.wantAt(false)
	waits.Finish()
	us.emptiedInside()
}

// What must not leave, or was forwarded by another region, is not sent to adopted servers.
func TestKeepsFromAdopted(t *testing.T) {
	us, _ := startAdopting(t, 1, 1, `,"allowed":[]`)
	home, waits := us.client(0, regionChat), us.client(1, regionChat)
	us.advance(time.Second)
	us.wantWaiting(waits)
	home.Finish()
	us.advance(time.Second)
	waits.Finish()
	us.emptiedInside()

	us, eu := startAdopting(t, 1, 1, "")
	there := eu.client(0, regionChat) // which hears us all the time
	away := eu.client(0, regionChat)
	home = us.client(0, regionChat)
	if away.cluster != "to-us" {
		t.Fatalf("sent to %q", away.cluster)
	}
	forwarded := us.client(0, hopOf(away))
	us.advance(time.Second)
	us.wantWaiting(forwarded)
	home.Finish()
	us.advance(time.Second)
	forwarded.wantAt(false)
	for _, c := range []*fakeStream{forwarded, away, there} {
		c.Finish()
	}
	us.emptiedInside()
}

// A gateway that shows its endpoints to requests only, as Higress does, finds out by requests which of the adopted
// servers are open.
func TestServesAdoptedUnseen(t *testing.T) {
	us, _ := newRegions(t, 1, 1, "", adopting(3))
	us.unseen, us.peers = true, nil
	us.advance(4 * time.Second)
	us.wantAdopted(1)
	home := us.client(0, regionChat)
	var open []*fakeStream
	for i := range 3 {
		c := us.client(i%2, regionChat)
		c.wantAt(true)
		open = append(open, c)
	}
	waits := us.client(0, regionChat)
	us.advance(time.Second)
	us.wantWaiting(waits)
	for _, c := range open {
		c.Finish()
	}
	us.advance(time.Second)
	waits.wantAt(true)
	waits.Finish()
	us.sites[euServers] = nil // the list is lost
	waits = us.client(1, regionChat)
	us.advance(time.Second)
	us.wantWaiting(waits)
	home.Finish()
	us.advance(time.Second)
	waits.wantAt(false)
	waits.Finish()
	us.drained()
}

// A conversation stays at the adopted server that has its beginning.
func TestAdoptedByThePrompt(t *testing.T) {
	us, _ := startAdopting(t, 1, 4, "")
	home, at := us.client(0, regionChat), map[int]bool{}
	long := regionChat
	long.Frames = []string{`{"prompt":"` + strings.Repeat("a long conversation ", 200) + `"}`}
	for i := range 6 {
		c := us.client(i%2, long)
		c.wantAt(true)
		at[c.Upstream()] = true
		c.Finish()
		us.advance(time.Second)
	}
	if len(at) != 1 || us.Counter(stats.AtAdopted+";region=eu;reason=prefix") != 5 {
		t.Errorf("at %v: %v", at, us.access)
	}
	home.Finish()
	us.emptiedInside()
}

// What a call refers to is found at adopted servers too, and what computes nothing is not counted as if it did.
func TestAdoptedCalls(t *testing.T) {
	us, _ := startAdopting(t, 1, 4, "")
	us.endpoints[0].State = lb.Unhealthy // at home no call meets a cap that computes nothing
	var open []*fakeStream
	for i := range 4 {
		c := us.client(i%2, streamtest.Request{Path: "/v1/responses", Frames: []string{`{"input":"a"}`}})
		c.wantAt(true)
		open = append(open, c)
	}
	for i, c := range open {
		c.Head(200)
		c.Data(`{"id":"resp_` + strconv.Itoa(i) + `"}`)
		c.Finish()
	}
	us.advance(time.Second)
	for i, made := range open {
		id := "resp_" + strconv.Itoa(i)
		for _, r := range []streamtest.Request{
			{Path: "/v1/responses", Frames: []string{`{"previous_response_id":"` + id + `"}`}},
			{Path: "/v1/responses/" + id + "/cancel", Method: "POST", Frames: []string{"{}"}},
		} {
			c := us.client(i%2, r)
			c.wantAt(true)
			if c.Upstream() != made.Upstream() {
				t.Errorf("%s: sent to %d, but %s is at %d", r.Path, c.Upstream(), id, made.Upstream())
			}
			if got, want := c.core.first.inside.What, c.core.What; got != want {
				t.Errorf("%s: call %d inside, %d outside", r.Path, got, want)
			}
			c.Finish()
			us.advance(time.Second)
		}
	}
	us.emptiedInside()
}

// Adopted servers serve also while nothing at home is healthy.
func TestAdoptedWithoutHealthy(t *testing.T) {
	us, _ := startAdopting(t, 1, 1, "")
	us.endpoints[0].State = lb.Unhealthy
	c := us.client(0, regionChat)
	c.wantAt(true)
	c.Finish()
	us.emptiedInside()
}
