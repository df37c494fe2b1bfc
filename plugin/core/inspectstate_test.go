package core

import (
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/internal/state"
)

// inspected adds to a configuration that the gateway shows what it knows.
func inspected(config string) string {
	return strings.Replace(config, `"lb_config":{`, `"lb_config":{`+inspectMembers+`,`, 1)
}

// The queue is shown by class, and caps of the endpoints, whichever worker has the requests.
func TestTheQueueIsShown(t *testing.T) {
	d, busy := startQueue(t, 2, 2, inspected(queueConfig(twoClasses)))
	d.inspect(0, "") // from now on somebody watches
	waits := []*fakeStream{
		d.client(0, inClass("batch")), d.client(1, inClass("batch")), d.client(0, inClass("interactive")),
	}
	d.advance(100 * time.Millisecond)
	c := d.inspect(1, "").Clusters[0]
	if len(c.Classes) != 2 || c.Classes[0] != (state.Class{Name: "interactive", Waiting: 1}) ||
		c.Classes[1] != (state.Class{Name: "batch", Waiting: 2}) {
		t.Errorf("%+v is shown", c.Classes)
	}
	for _, e := range c.Endpoints {
		if e.Cap != 1 || e.Requests != 1 {
			t.Errorf("%+v is shown", e)
		}
	}
	d.advance(time.Second)
	busy[0].Finish()
	d.advance(time.Second)
	if list := d.inspect(0, "").Decisions; len(list) != 1 || list[0].Class != "interactive" || list[0].WaitMS < 1000 ||
		list[0].Endpoint != d.Addr(waits[2].Upstream()) || len(list[0].Candidates) != 2 || !list[0].Candidates[0].Full {
		t.Errorf("%+v is shown of who waited", list)
	}
	for _, s := range waits[:2] {
		s.leave()
	}
	busy[1].Finish()
	waits[2].Finish()
}

// The metrics of engines are shown as long as they are fresh, and an endpoint that is ejected as such, whichever worker
// has read and ejected them.
func TestEnginesAndEjectionsAreShown(t *testing.T) {
	d := startFake(t, 2, 3, inspected(strings.Replace(metricsConfig, `"slow_start":0`,
		`"slow_start":0,"consecutive_failures":2,"ejection_time":"30s"`, 1)))
	d.pages = map[string]string{d.Addr(0): vllmPage(3), d.Addr(1): vllmPage(4), d.Addr(2): vllmPage(5)}
	d.client(0, streamtest.Request{}).Finish()
	d.advance(time.Second)
	d.ejects(0, d.Addr(2))
	d.advance(time.Second)
	for worker := range 2 {
		for i, e := range d.inspect(worker, "").Clusters[0].Endpoints {
			if e.Engine == nil || e.Engine.Running != float64(3+i) || e.Engine.KVCache != 0.5 {
				t.Errorf("worker %d shows %+v of the engine of %d", worker, e.Engine, i)
			}
			if ejected := e.Health == "ejected"; ejected != (i == 2) || ejected != (e.Weight == 0) {
				t.Errorf("worker %d shows %+v", worker, e)
			}
		}
	}
}

// Other regions are shown as they have answered, or not.
func TestRegionsAreShown(t *testing.T) {
	us, eu := newRegions(t, 1, 1, "", func(_ *fakeDriver, config string) string { return inspected(config) })
	want := state.Region{Name: "eu", Available: true, RTTMS: 20}
	s := us.inspect(1, "")
	if len(s.Regions) == 1 && s.Regions[0].ProbeAgeMS < 1000 {
		want.ProbeAgeMS = s.Regions[0].ProbeAgeMS
	}
	if s.Region != "us" || len(s.Regions) != 1 || s.Regions[0] != want {
		t.Errorf("%q sees %+v, want %+v", s.Region, s.Regions, want)
	}
	us.peers = nil // they do not answer any more
	us.advance(5 * time.Second)
	if s := us.inspect(0, ""); s.Regions[0].Available || s.Regions[0].ProbeAgeMS < 4000 {
		t.Errorf("when they are gone, %+v", s.Regions)
	}
	eu.advance(time.Second)
}

// Clusters that are chosen among are shown as the endpoints of their route.
func TestClustersAreShown(t *testing.T) {
	d := startSites(t, 2, inspected(apiConfig("")))
	d.anyCluster = true
	d.client(0, streamtest.Request{}).Finish()
	c := d.inspect(1, "").Clusters[0]
	if c.Policy != "token_budget" || len(c.Endpoints) != 3 || c.Endpoints[0].Addr != "a" {
		t.Errorf("%+v is shown", c)
	}
}

// A call that waits is answered although the gateway is to show nothing any more.
func TestCallsOfBeforeAreAnswered(t *testing.T) {
	d := startFake(t, 1, 1, inspectConfig)
	call := d.client(0, streamtest.Request{
		Path: inspectPath + "/state", Headers: authorization("Bearer " + apiToken),
	})
	if !call.Held() || !d.configure(requestsConfig) {
		t.Fatal("the call is answered at once, or the configuration refused")
	}
	d.advance(time.Second)
	if r := call.Result(); r.Status != 200 {
		t.Errorf("answered %d %s", r.Status, r.Body)
	}
}

// A worker that has had no request for long shows the endpoints as they are by now.
func TestAnIdleWorkerShowsWhatOthersKnow(t *testing.T) {
	d := startFake(t, 2, 2, inspectConfig)
	d.client(0, streamtest.Request{}).Finish()
	d.SetEndpoints(make([]streamtest.Endpoint, 3))
	d.advance(time.Second)
	d.client(1, streamtest.Request{}).Finish()
	if c := d.inspect(0, "").Clusters[0]; len(c.Endpoints) != 3 || c.Endpoints[0].Addr != d.Addr(0) {
		t.Errorf("%+v is shown", c.Endpoints)
	}
}
