package core

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
)

// A rule whose requests stay in the region is not left by another way to write its host.
func TestStaysAtHomeHoweverTheHostIsWritten(t *testing.T) {
	us, eu := newRegions(t, 1, 1, "", func(_ *fakeDriver, config string) string {
		if config != regionConfig("us", "eu", "") {
			return config
		}
		rule := regionConfig("us", "eu", `,"allowed":[]`)
		return config[:len(config)-1] + `,"_rules_":[{"_match_domain_":["private.example","bücher.example"],` +
			rule[1:] + `]}`
	})
	busy := us.client(0, regionChat)
	for _, host := range []string{
		"private.example", "private.example.", "Private.Example.:8443", "private.example..", "XN--BCHER-KVA.example.",
	} {
		r := regionChat
		r.Authority = host
		w := us.client(1, r)
		pass(500*time.Millisecond, us, eu)
		if !w.Held() || w.cluster == "to-eu" {
			t.Errorf("%s: sent to %q", host, w.cluster)
		}
		w.ResetByClient()
	}
	r := regionChat
	r.Authority = "public.example."
	if w := us.client(1, r); w.cluster != "to-eu" {
		t.Errorf("sent to %q by the other rule", w.cluster)
	} else {
		w.Finish()
	}
	busy.Finish()
	us.drained()
}

// A configuration that is replaced, but lives on with its last request, does not keep the new one from its peers.
func TestRegionsAreReplaced(t *testing.T) {
	us, eu := startRegions(t, 1, 1, "")
	chat := streamtest.Request{Frames: []string{`{"prompt":"a"}`}}
	long := us.client(0, chat)
	if !us.configure(regionConfig("us", "eu", `,"queue_buffer":5`)) {
		t.Fatal("the new configuration is refused")
	}
	pass(2*time.Second, us, eu)
	if all, err := us.workers[1].home().Board.Peers(us.now); err != nil || !all[0].Available {
		t.Errorf("by the new configuration the other region is not available: %+v %v", all, err)
	}
	away := us.client(1, chat)
	if away.cluster != "to-eu" {
		t.Errorf("a request is sent to %q", away.cluster)
	}
	away.Finish()
	long.Finish()
	pass(200*time.Millisecond, us, eu)
	us.drained()
}
