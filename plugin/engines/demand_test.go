package engines

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/process"
)

// byRules has a rule for each of two domains that go by a metric of their own, one that needs no metrics, and a global
// part.
const byRules = `{"lb_policy":"endpoint_metrics","_rules_":[
	{"_match_domain_":["a"],"lb_policy":"endpoint_metrics",
		"lb_config":{"metric_policy":"least","target_metric":"gauge_a"}},
	{"_match_domain_":["b"],"lb_policy":"endpoint_metrics",
		"lb_config":{"metric_policy":"most","target_metric":"gauge_b"}},
	{"_match_domain_":["c"],"lb_policy":"global_least_request"}]}`

func TestDemandList(t *testing.T) {
	now := time.Hour
	list := demandList{
		{"llm", 0}: now, {"llm", 3}: now - time.Second, {"", 1}: now,
		{strings.Repeat("long", 5000), 2}: now - demandAge,
		{"ü|\x00", 1 << 20}:               now,
	}
	if got := parseDemand(list.append(nil, now)); !maps.Equal(got, list) {
		t.Errorf("%v becomes %v", list, got)
	}
	if got := parseDemand(list.append(nil, now+1)); len(got) != len(list)-1 {
		t.Errorf("of %d, %d are kept; one has not been needed for too long", len(list), len(got))
	}
	unwritable := demandList{{strings.Repeat("x", 1<<16), 1}: now}
	for name, l := range map[string]demandList{"empty": {}, "too long": unwritable, "past": {{"llm", 1}: 0}} {
		raw := l.append(nil, now)
		if len(raw) == 0 {
			t.Errorf("%s: the value is empty, which the gateway does not keep", name)
		}
		if got := parseDemand(raw); len(got) != 0 {
			t.Errorf("%s: becomes %v", name, got)
		}
	}
}

func TestDemandListDamaged(t *testing.T) {
	now := time.Hour
	list := demandList{{"llm", 0}: now, {"other", 3}: now - time.Second}
	raw := list.append(nil, now)
	for n := range raw {
		got := parseDemand(raw[:n])
		if len(got) > 1 {
			t.Errorf("%d bytes of %d pass as %v", n, len(raw), got)
		}
		for m, at := range got {
			if list[m] != at {
				t.Errorf("%d bytes of %d pass as %v", n, len(raw), got)
			}
		}
	}
}

func FuzzDemandList(f *testing.F) {
	f.Add([]byte{0}, int64(time.Hour))
	f.Add(demandList{{"llm", 1}: time.Hour, {"other", 2}: 2 * time.Hour}.append(nil, time.Hour), int64(2*time.Hour))
	f.Fuzz(func(t *testing.T, raw []byte, at int64) {
		now := time.Duration(at)
		list := parseDemand(raw)
		maps.DeleteFunc(list, func(_ metricsDemand, at time.Duration) bool { return now-at > demandAge })
		if got := parseDemand(list.append(nil, now)); !maps.Equal(got, list) {
			t.Fatalf("%v becomes %v", list, got)
		}
	})
}

// Whichever VM scrapes, and in whatever order the workers came to need metrics, all VMs scrape for the same needs.
func TestVMsAgreeOnTargets(t *testing.T) {
	p, vms := demandingVMs(t, 3, byRules)
	vms[1].need("llm", 1)
	vms[2].need("llm", 0)
	vms[2].need("other", 3)
	vms[1].need("plain", 2)
	for _, v := range vms {
		v.demand.announce(p.now)
	}
	for i, v := range vms {
		jobs := v.jobs(p.now)
		if len(jobs) != 2 || !slices.Equal(jobs["llm"].targets, []string{"gauge_a", "gauge_b"}) ||
			jobs["other"].targets != nil {
			t.Errorf("VM %d scrapes for %+v", i, jobs)
		}
	}
	vms[2].need("other", 3)
	for i, v := range vms {
		if jobs := v.jobs(p.now + demandAge + 1); len(jobs) != 0 {
			t.Errorf("VM %d scrapes for %+v, which has not been needed for long", i, jobs)
		}
	}
}

// A new need is announced at the next tick, under each rule; a need that lasts, once in a while.
func TestDemandIsAnnouncedSoon(t *testing.T) {
	p, vms := demandingVMs(t, 2, byRules)
	main, worker := vms[0], vms[1]
	writes := 0
	p.kv.OnSet = func(key string, _ []byte, _ uint32) error {
		if key == process.KeyDemand {
			writes++
		}
		return nil
	}
	for _, rule := range []int{0, 1} {
		worker.need("llm", rule)
		worker.demand.announce(p.now)
		if n := len(main.jobs(p.now)["llm"].targets); n != rule+1 {
			t.Errorf("under rule %d, the other VM scrapes for %d metrics", rule, n)
		}
	}
	writes = 0
	for range 600 {
		p.now += process.TickPeriod
		worker.ReadClock()
		worker.need("llm", 0)
		worker.demand.announce(p.now)
	}
	if want := int(600 * process.TickPeriod / announceEvery); writes < want-1 || writes > want+1 {
		t.Errorf("announced %d times in a minute, want %d", writes, want)
	}
	if main.jobs(p.now)["llm"] == nil {
		t.Error("after a minute of requests no metrics count as needed")
	}
}

// A new configuration may have other rules under the numbers of the old ones.
func TestDemandUnderANewConfiguration(t *testing.T) {
	p, vms := demandingVMs(t, 2, byRules)
	vms[1].need("llm", 0)
	vms[1].demand.announce(p.now)
	if !p.configure(`{"lb_policy":"global_least_request"}`) {
		t.Fatal("refused")
	}
	if jobs := vms[0].jobs(p.now); len(jobs) != 0 {
		t.Errorf("a configuration without metrics has the jobs %v", jobs)
	}
	if !p.configure(`{"lb_policy":"endpoint_metrics","lb_config":{"rate_limit":0.5}}`) {
		t.Fatal("refused")
	}
	vms[1].need("llm", 0)
	vms[1].demand.announce(p.now)
	if j := vms[0].jobs(p.now)["llm"]; j == nil || j.targets != nil {
		t.Errorf("the job is %+v, want the cluster without further metrics", j)
	}
}

func TestLostSwapOfDemand(t *testing.T) {
	p, vms := demandingVMs(t, 2, byRules)
	p.kv.OnSet = func(string, []byte, uint32) error { return lb.ErrMismatch }
	vms[1].need("llm", 0)
	vms[1].demand.announce(p.now)
	p.kv.OnSet = nil
	if jobs := vms[0].jobs(p.now); len(jobs) != 0 {
		t.Fatalf("announced, though the swap was lost: %v", jobs)
	}
	vms[1].demand.announce(p.now + process.TickPeriod)
	if vms[0].jobs(p.now)["llm"] == nil {
		t.Error("a lost swap is not tried again")
	}
	p.kv.Broken = lb.ErrNotFound
	vms[1].need("other", 0)
	vms[1].demand.announce(p.now)
	p.kv.Broken = nil
	vms[1].demand.announce(p.now)
	if vms[0].jobs(p.now)["other"] == nil {
		t.Error("what could not be announced is forgotten")
	}
}

// More clusters than can be scraped do not make the shared value grow. The known ones stay, and the others wait for
// room.
func TestDemandIsBounded(t *testing.T) {
	p, vms := demandingVMs(t, 2, byRules)
	for i := range 2 * maxDemands {
		vms[1].need("cluster-"+strings.Repeat("x", i), 0)
	}
	vms[1].demand.announce(p.now)
	if n := len(vms[0].jobs(p.now)); n != maxDemands {
		t.Errorf("%d clusters are scraped, want %d", n, maxDemands)
	}
	p.now += demandAge + time.Second
	for range 3 {
		p.now += announceEvery
		vms[1].ReadClock()
		vms[1].need("new", 0)
		vms[1].demand.announce(p.now)
	}
	if jobs := vms[0].jobs(p.now); len(jobs) != 1 || jobs["new"] == nil {
		t.Errorf("%d clusters are scraped once the old ones are over, want the new one", len(jobs))
	}
}

// Redis or not, stock Envoy only scrapes through a cluster that is configured.
func TestScrapesNeedAClusterInEnvoy(t *testing.T) {
	p, vms := demandingVMs(t, 1, byRules)
	v := vms[0]
	v.need("llm", 0)
	v.demand.announce(p.now)
	if j := v.jobs(p.now)["llm"]; j == nil || !j.stored {
		t.Errorf("in Higress: %+v, want pages that are stored", j)
	}
	v.Env.Kind = config.Envoy
	if jobs := v.jobs(p.now); len(jobs) != 0 {
		t.Errorf("in stock Envoy without metrics_cluster: %v", jobs)
	}
}

// The value in shared memory is byte for byte as documented: VMs with another version of the plugin read it.
func TestFormatsOfDemand(t *testing.T) {
	const at = time.Duration(0x0102030400000000)
	want := "\x03\x00llm" + "\x18\x17\x16\x15\x14\x13\x12\x11" + "\x00\x00\x00\x00\x04\x03\x02\x01"
	if got := string(demandList{{"llm", 0x1112131415161718}: at}.append(nil, at)); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := string(demandList{}.append(nil, at)); got != "\x00" {
		t.Errorf("of no demand: %q", got)
	}
}
