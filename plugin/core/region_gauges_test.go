package core

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/plugin/stats"
	"github.com/warmgate/warmgate/plugin/stores"
)

// What is shown of the peers is what the configuration in force knows: not what one that was replaced knew last.
func TestGaugesOfReplacedRegions(t *testing.T) {
	us, eu := startRegions(t, 1, 1, "")
	if !us.configure(regionConfig("us", "eu", `,"queue_buffer":5`)) {
		t.Fatal("the new configuration is refused")
	}
	pass(2*time.Second, us, eu)
	if n := us.Gauge(stats.PeerOpen + ";region=eu"); n != 1 {
		t.Fatalf("available: %d", n)
	}
	us.peers = nil
	pass(3*time.Second, us, eu)
	for range 10 {
		pass(stores.HeartbeatPeriod, us, eu)
		if age := us.Gauge(stats.PeerAge + ";region=eu"); age < 2000 || age > 15000 {
			t.Errorf("its last answer is %d ms old", age)
		}
	}
	for range 3 { // and back: the board of the second configuration is as it was long ago
		for _, buffer := range []string{`,"queue_buffer":5`, ""} {
			if !us.configure(regionConfig("us", "eu", buffer)) {
				t.Fatal("refused")
			}
		}
	}
	us.peers = map[string]*fakeProcess{"to-eu": eu.fakeProcess}
	pass(3*time.Second, us, eu)
	bad := 0
	for range 300 {
		pass(10*time.Millisecond, us, eu)
		if us.Gauge(stats.PeerOpen+";region=eu") != 1 || us.Gauge(stats.PeerAge+";region=eu") > 2000 {
			bad++
		}
	}
	if bad > 0 {
		t.Errorf("of 300 looks %d show what a configuration knew that is not in force", bad)
	}
}

// Of peers that no configuration in force has, the gauges are at rest.
func TestGaugesOfRemovedRegions(t *testing.T) {
	us, _ := startAdopting(t, 1, 1, "")
	if us.Gauge(stats.PeerOpen+";region=eu") != 1 {
		t.Error("the adopted servers are not available")
	}
	us.sites[fakeCluster] = us.sites["llm"] // the route leads there without the header
	if !us.configure(queueConfig("")) {
		t.Fatal("refused")
	}
	us.wantAdopted(0)
	if n := us.Gauge(stats.PeerOpen + ";region=eu"); n != 0 {
		t.Errorf("available: %d", n)
	}
}
