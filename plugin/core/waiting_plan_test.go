package core

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/learned"
)

// What is configured, and what the headers say, is in the plan.
func TestPlanOfAWaitingRequest(t *testing.T) {
	d, _ := startQueue(t, 1, 1, queueConfig(twoClasses+`,"order":"strict","aging":"5s","skip":3,"patience":"1s",`+
		`"max_length":100,"tenant_header":"x-tenant","tenant_max_share":0.25`))
	for _, name := range []string{"a", "b", ""} {
		d.workers[0].vm.Waiters.Tenants.Answered(d.now, learned.TenantName(name))
	}
	plan := func(headers ...[2]string) lb.Wait {
		c := d.client(0, streamtest.Request{Headers: headers})
		d.wantWaiting(c)
		return c.core.first.Lease.Reservation.Plan.Wait
	}
	w := plan([2]string{"x-class", "interactive"}, [2]string{"x-tenant", "a"})
	want := lb.Wait{
		Max: 10 * time.Second, Class: lb.Class{ID: w.Class.ID, Rank: 0, Weight: 8}, Tenant: w.Tenant, Strict: true,
		Aging: 5 * time.Second, Skip: 3, Patience: time.Second, Length: 100, TenantLength: 25, Limits: w.Limits,
		Place: w.Place,
	}
	if w != want || w.Place == nil {
		t.Errorf("%+v, want %+v", w, want)
	}
	other := plan([2]string{"x-class", "batch"}, [2]string{"x-tenant", "b"})
	if w.Class.ID == 0 || other.Class.ID == w.Class.ID || other.Class.Rank != 1 || other.Class.Weight != 1 {
		t.Errorf("classes %+v and %+v", w.Class, other.Class)
	}
	none, again := plan(), plan([2]string{"x-tenant", "a"})
	if w.Tenant == 0 || none.Tenant == 0 || other.Tenant == w.Tenant || none.Tenant == w.Tenant ||
		again.Tenant != w.Tenant {
		t.Errorf("tenants %x, %x, %x, again %x", w.Tenant, other.Tenant, none.Tenant, again.Tenant)
	}
	if unknown := plan([2]string{"x-tenant", "c"}); unknown.Tenant != learned.Newcomers {
		t.Errorf("tenant %x of whom no answer is known", unknown.Tenant)
	}
	if none.Class != other.Class {
		t.Errorf("class %+v of a request without the header", none.Class)
	}
	if other.Limits != w.Limits {
		t.Error("requests of one configuration do not share their caps")
	}
}

// When an endpoint dies, the gateway retries what was there at the others, full or not, and tells of it when the
// answers begin. So these have at most as many more than their caps as it had; what has begun counts, and no more is
// granted until that has ended.
func TestCapsWhenAnEndpointDies(t *testing.T) {
	const most, waiting = 3, 8
	config := strings.Replace(queueConfig(""), `"max_inflight":1`, fmt.Sprintf(`"max_inflight":%d`, most), 1)
	d := startFake(t, 1, 2, config)
	d.advance(time.Second)
	var all []*fakeStream
	for range 2*most + waiting {
		all = append(all, d.client(0, streamtest.Request{}))
	}
	d.wantWaiting(all[2*most:]...)
	d.SetEndpoints([]streamtest.Endpoint{{State: streamtest.Unhealthy}, {}})
	for _, c := range all[:2*most] {
		if c.Upstream() == 0 && c.Retry() != 1 {
			t.Fatalf("retried at endpoint %d", c.Upstream())
		}
	}
	served := 0
	finish := func() (left int) { // the request that came first, and returns how many are in flight then
		d.advance(time.Second)
		all[served].conclude()
		served++
		d.advance(time.Second)
		for _, c := range all[served:] {
			if c.Upstream() == 1 {
				left++
			}
		}
		return left
	}
	for range 2 {
		if left := finish(); left > 2*most || left < most {
			t.Fatalf("%d in flight, want %d at most", left, 2*most)
		}
	}
	for _, c := range all[served : 2*most] {
		c.Head(200)
	}
	for had := 2 * most; served < len(all); {
		left := finish()
		if left > max(had-1, most) {
			t.Errorf("%d in flight at an endpoint that takes %d and had %d", left, most, had)
		}
		had = left
	}
	d.drained()
	d.wantNoneWaits()
}

// Configurations share the caps of their endpoints only where these follow from the same settings.
func TestCapsAreShared(t *testing.T) {
	digest := func(config string) uint32 {
		d, _ := startQueue(t, 1, 1, config)
		c := d.client(0, streamtest.Request{})
		d.wantWaiting(c)
		return c.core.first.Lease.Reservation.Plan.Wait.Limits
	}
	base := digest(queueConfig(""))
	if got := digest(queueConfig(`"aging":"1s"`, `"shadow":false`)); got != base {
		t.Error("the caps depend on how requests wait")
	}
	for _, members := range []string{`"push":"outstanding"`, `"weights":{"10.0.0.1:8000":0.9}`} {
		if digest(queueConfig("", members)) == base {
			t.Errorf("%s does not change the digest", members)
		}
	}
}
