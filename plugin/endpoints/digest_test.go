package endpoints

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/process"
	"github.com/warmgate/warmgate/plugin/process/processtest"
)

func TestOwnZoneIsReadOnce(t *testing.T) {
	_, vms := adminVMs(t, 2)
	read := 0
	vms[1].where = func() lb.Zone { read++; return lb.Zone{Region: "r", Name: "a"} }
	learn(t, vms[0], time.Hour, clustersPage("healthy"))
	vms[1].refresh(time.Hour)
	learn(t, vms[0], time.Hour+pollEvery, clustersPage("healthy", "healthy"))
	vms[1].refresh(time.Hour + pollEvery)
	if v := vms[1].views["llm"]; read != 1 || len(v.Endpoints) != 2 || v.Zone != (lb.Zone{Region: "r", Name: "a"}) {
		t.Errorf("read %d times, %+v", read, v)
	}
}

// Code that writes another form of the digest has a leader and a digest of its own: while it is replaced, both forms
// are there, and no worker mistakes one for the other.
func TestOtherFormsOfTheDigest(t *testing.T) {
	kv, vms := adminVMs(t, 1)
	leader := binary.LittleEndian.AppendUint64(nil, 99)
	leader = binary.LittleEndian.AppendUint64(leader, uint64(2*time.Hour))
	for key, value := range map[string][]byte{
		"warmgate/1/leader": leader, "warmgate/1/digest": {1, 1, 3, 'l', 'l', 'm', 0}, "warmgate/1/fresh": leader[8:],
	} {
		if err := kv.Set(key, value, 0); err != nil {
			t.Fatal(err)
		}
	}
	if got := states(vms[0], time.Hour); got != "none" {
		t.Errorf("the other form was read: %s", got)
	}
	learn(t, vms[0], time.Hour, clustersPage("healthy"))
	if got := states(vms[0], time.Hour); got != "healthy" {
		t.Errorf("got %s", got)
	}
	if old, _, err := kv.Get("warmgate/1/digest"); err != nil || len(old) != 7 {
		t.Errorf("the other form was written: %q, %v", old, err)
	}
}

// Circuit breakers are known to all VMs, as another state of them with each answer, until the list is stale.
func TestBreakersOfTheLeader(t *testing.T) {
	_, vms := adminVMs(t, 2)
	g, c := &Envoy{admin: vms[1]}, envoyConfig(t, `{"admin_cluster":"admin"}`)
	now, page := time.Hour, append([]byte("llm::default_priority::max_requests::4\nllm::10.0.0.1:8000::rq_active::3\n"),
		clustersPage("healthy")...)
	seen := map[uint32]bool{}
	for range 3 {
		learn(t, vms[0], now, page)
		vms[1].refresh(now)
		known, version := g.Breakers(c)
		if b := known["llm"]; b.MaxRequests != 4 || b.Active != 3 || seen[version] {
			t.Errorf("%+v, seen: %t", b, seen[version])
		}
		seen[version] = true
		now += pollEvery
	}
	if known, _ := g.Breakers(envoyConfig(t, `{"endpoints":["10.0.0.1:8000"]}`)); known != nil {
		t.Errorf("%v without the admin interface", known)
	}
	vms[1].refresh(now + staleAfter)
	if known, _ := g.Breakers(c); known != nil {
		t.Errorf("%v long after", known)
	}
}

func TestFormatOfMoments(t *testing.T) {
	const moment = time.Duration(0x0102030400000000)
	kv := &processtest.KV{Cells: map[string]processtest.Cell{}}
	poller := newAdminPoller(kv, 1)
	if err := poller.setMoment(process.KeyFresh, moment); err != nil {
		t.Fatal(err)
	}
	if got := kv.Cells[process.KeyFresh].Val; got != "\x00\x00\x00\x00\x04\x03\x02\x01" {
		t.Errorf("got %q", got)
	}
	if at := poller.moment(process.KeyFresh); at != moment {
		t.Errorf("the moment %v is read as %v", moment, at)
	}
}

// While requests wait for endpoints the leader polls at every tick, whichever VM they wait in: but for no more than a
// tenth of the time.
func TestPollsInAHurry(t *testing.T) {
	_, vms := adminVMs(t, 2)
	leader, worker := vms[0], vms[1]
	now := time.Hour
	polls := func(took time.Duration, hurry bool) (n int) {
		for end := now + 10*pollEvery; now < end; now += process.TickPeriod {
			if hurry {
				worker.hurry(now)
			}
			if leader.due(now, pollEvery) {
				n++
				leader.received(now+took, clustersPage("healthy"), "200")
			}
		}
		return n
	}
	for _, c := range []struct {
		took     time.Duration
		hurry    bool
		from, to int
	}{
		{time.Millisecond, false, 9, 11},
		{time.Millisecond, true, 99, 100},
		{30 * time.Millisecond, true, 30, 34},
		{time.Second / 2, true, 9, 11},
		{time.Millisecond, false, 9, 20},
	} {
		if n := polls(c.took, c.hurry); n < c.from || n > c.to {
			t.Errorf("%+v: %d polls in 10 s", c, n)
		}
	}
}
