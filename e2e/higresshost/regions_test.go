package higresshost_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/higresshost"
)

const (
	hopHeader = "x-warmgate-hop"
	euServers = "outbound|80||eu-servers.static"
	// regional is the configuration of a region whose servers take one request each.
	regional = `{"lb_type":"endpoint","lb_policy":"prefix_cache","lb_config":{"max_inflight":1,"debug_headers":true,` +
		`"health":{"slow_start":0},"queue":{"max_wait":"10s"},"regions":{"name":%q,"cluster":"llm","peers":[{"name":%q,` +
		`"cluster":"to-other","forward_cluster":"other-or-home","rtt":"20ms","adopt":{"cluster":"` + euServers +
		`"}}],"gone":"1s","steady":"1s","probe_interval":"100ms","secret":"between the regions"}}}`
)

// region runs the shipped plugin in a region with three servers, which adopts two of the other one.
func region(t *testing.T, profile higresshost.Profile, name, peer string) *higresshost.Gateway {
	t.Helper()
	gw := warmgate(t, higresshost.Options{
		Profile: profile, Workers: 2, Config: fmt.Sprintf(regional, name, peer), ClusterHeader: targetHeader,
	})
	gw.Cluster("to-other").Add("10.9.0.1:10000")
	gw.Cluster("other-or-home").Add("10.9.0.1:10000")
	gw.Cluster("other-or-home").Add(addrs[0]) // where a retry goes
	for i := range 2 {
		gw.Cluster(euServers).Add(fmt.Sprintf("10.8.0.%d:8000", i))
	}
	return gw
}

// regions runs two of them. Probes from the first one reach the second one while up says so.
func regions(t *testing.T, profile higresshost.Profile, up *bool) (us, eu *higresshost.Gateway) {
	t.Helper()
	us, eu = region(t, profile, "us", "eu"), region(t, profile, "eu", "us")
	probes := 0
	us.OnHTTPCall = func(c *higresshost.HTTPCall) {
		if !*up {
			return // it times out
		}
		probes++
		s := eu.Worker(probes % 2).NewStream()
		s.RequestHeaders(c.Headers, true)
		var headers []string
		for _, h := range s.Received.Headers {
			if h[0] != ":status" {
				headers = append(headers, h[0], h[1])
			}
		}
		code := s.Code
		us.After(20*time.Millisecond, func() { c.Respond(code, nil, headers...) })
	}
	pass(time.Second, us, eu)
	return us, eu
}

// pass lets time pass in both.
func pass(d time.Duration, us, eu *higresshost.Gateway) {
	for range d / (10 * time.Millisecond) {
		us.Advance(10 * time.Millisecond)
		eu.Advance(10 * time.Millisecond)
	}
}

// asked is how many requests were sent: none waits for a server that has its prompt.
var asked int

// ask sends a request with a prompt of its own.
func ask(w *higresshost.Worker) *higresshost.Stream {
	asked++
	return w.Request("POST", completions, fmt.Sprintf(`{"messages":[{"role":"user","content":"%d"}]}`, asked))
}

// fill occupies the servers of the region itself.
func fill(t *testing.T, gw *higresshost.Gateway) (open []*higresshost.Stream) {
	t.Helper()
	for i := range addrs {
		s := ask(gw.Worker(i % 2))
		if gw.Cluster("llm").Endpoint(s.Upstream()) == nil || s.Sent.Headers.Get(targetHeader) != "llm" {
			t.Fatalf("a request is at %q, by %q", s.Upstream(), s.Sent.Headers.Get(targetHeader))
		}
		open = append(open, s)
	}
	return open
}

// Requests go to another region's gateway, which takes them as forwarded; come home by a retry; go to the servers of
// the region once its gateways are gone; and to its gateways again. Higress shows the adopted servers to requests only.
func TestRegions(t *testing.T) {
	for _, profile := range []higresshost.Profile{higresshost.Higress22, higresshost.Higress21} {
		t.Run(profile.String(), func(t *testing.T) {
			up := true
			us, eu := regions(t, profile, &up)
			open := fill(t, us)
			forwardAndBack(t, us, eu)
			up = false
			pass(4*time.Second, us, eu)
			open = append(open, adopted(t, us, eu)...)
			up = true
			pass(4*time.Second, us, eu)
			away := ask(us.Worker(1))
			if away.Sent.Headers.Get(targetHeader) != "other-or-home" {
				t.Errorf("given back, a request is sent to %q", away.Sent.Headers.Get(targetHeader))
			}
			for _, s := range append(open, away) {
				s.Respond(200, "{}")
			}
			audit(t, us)
			for _, e := range us.Cluster(euServers).Endpoints() {
				name := "warmgate_inflight_requests;cluster=" + euServers + ";endpoint=" + e.Addr
				if n := us.Metrics().Gauge(name); n != 0 {
					t.Errorf("%d are left at %s", n, e.Addr)
				}
			}
		})
	}
}

// forwardAndBack has a request forwarded, taken by the other region, and then served at home by a retry.
func forwardAndBack(t *testing.T, us, eu *higresshost.Gateway) {
	t.Helper()
	away := ask(us.Worker(0))
	if away.Sent.Headers.Get(targetHeader) != "other-or-home" || away.Sent.Headers.Get(hopHeader) == "" {
		t.Fatalf("sent as %v", away.Sent.Headers)
	}
	there := eu.Worker(1).Request("POST", completions, chat, hopHeader, away.Sent.Headers.Get(hopHeader))
	if eu.Cluster("llm").Endpoint(there.Upstream()) == nil || there.Sent.Headers.Has(hopHeader) {
		t.Errorf("there it is at %q, as %v", there.Upstream(), there.Sent.Headers)
	}
	if n := eu.Metrics().Counter("warmgate_region_served_total;region=us"); n != 1 {
		t.Errorf("%d are served for the other region", n)
	}
	there.Respond(200, "{}")
	away.Retry() // as if that gateway had died
	if away.Upstream() != addrs[0] {
		t.Fatalf("the retry went to %q", away.Upstream())
	}
	away.Respond(200, "{}")
	if n := us.Metrics().Counter("warmgate_region_returned_total;region=eu"); n != 1 ||
		away.Received.Headers.Get("x-warmgate-host") != addrs[0] {
		t.Errorf("%d came home, %v", n, away.Received.Headers)
	}
}

// adopted has requests served by adopted servers, and returns those that are under way.
func adopted(t *testing.T, us, eu *higresshost.Gateway) (open []*higresshost.Stream) {
	t.Helper()
	if n := us.Metrics().Gauge("warmgate_region_adopted;region=eu"); n != 1 {
		t.Fatal("not adopted")
	}
	for i := range 2 {
		s := ask(us.Worker(i))
		at := us.Cluster(euServers).Endpoint(s.Upstream())
		if at == nil || s.Override != at.Addr || s.Sent.Headers.Has(hopHeader) {
			t.Fatalf("request %d is at %q, paused %v", i, s.Upstream(), s.Paused())
		}
		open = append(open, s)
	}
	if open[0].Upstream() == open[1].Upstream() {
		t.Error("both are at one server")
	}
	waits := ask(us.Worker(0))
	if pass(time.Second, us, eu); !waits.Paused() {
		t.Errorf("with all full a request is at %q", waits.Upstream())
	}
	open[0].Respond(200, "{}")
	pass(time.Second, us, eu)
	if us.Cluster(euServers).Endpoint(waits.Upstream()) == nil {
		t.Errorf("with room there it is at %q", waits.Upstream())
	}
	return []*higresshost.Stream{open[1], waits}
}
