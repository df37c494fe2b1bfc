package core

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/response"
	"github.com/warmgate/warmgate/plugin/views"
)

// A request is given back if no model can have worked on it, by how the response came about.
func TestUnservedResponses(t *testing.T) {
	d := newFakeProcess(t, 1)
	for _, c := range []struct {
		reached          bool
		status           int
		details          string
		unserved, unseen bool
	}{
		{false, 0, "", true, true},
		{false, 403, "ext_authz_denied", true, true},
		{true, 0, "", false, false},
		{true, 200, "via_upstream", false, false},
		{true, 400, "via_upstream", true, false},
		{true, 401, "", true, false},
		{true, 408, "via_upstream", false, false},
		{true, 429, "via_upstream", true, false},
		{true, 499, "via_upstream", false, false},
		{true, 500, "via_upstream", false, false},
		{true, 503, "via_upstream", true, false},
		{true, 504, "via_upstream", false, false},
		{true, 529, "", true, false},
		{true, 503, "upstream_reset_before_response_started{connection_failure}", true, true},
		{true, 503, "upstream_reset_before_response_started{remote_connection_timeout}", true, true},
		{true, 503, "upstream_reset_before_response_started{connection_termination}", false, false},
		{true, 503, "upstream_reset_before_response_started{overflow}", true, true},
		{true, 504, "response_timeout", false, false},
		{true, 503, "no_healthy_upstream", true, true},
	} {
		r := response.State{Reached: c.reached, Status: c.status}
		s := d.endedBy(c.details)
		d.effective = s
		if unserved, unseen := r.Unserved(s); unserved != c.unserved || unseen != c.unseen {
			t.Errorf("%+v: %v, %v", c, unserved, unseen)
		}
	}
	d.effective = nil
}

const tenantsConfig = `"tenants":{"tenant_header":"x-tenant","max_concurrent_requests":1,"max_tokens_per_minute":1000}`

// startBudget returns a process whose clusters a, b and c are targets.
func startBudget(t *testing.T, workers int, target, members string) *fakeDriver {
	t.Helper()
	if members != "" {
		members += ","
	}
	return startSites(t, workers, fmt.Sprintf(`{"lb_type":"cluster","lb_policy":"token_budget","lb_config":{%s`+
		`"health":{"slow_start":0},"output_tokens":100,"debug_headers":true,`+
		`"targets":{"a":{%s},"b":{%s},"c":{%s}}}}`, members, target, target, target))
}

// inBudget returns how many requests and tasks are counted at a target.
func (d *fakeDriver) inBudget(name string) int64 {
	return d.counted(views.BudgetScope, name)
}

// Clusters are shared out among all routes alike, and nothing is left in flight, however requests end.
func TestBudgetsAmongClusters(t *testing.T) {
	d := startBudget(t, 2, `"weight":1,"max_concurrent_requests":4`, "")
	var open []*fakeStream
	for i := range 12 {
		open = append(open, d.client(i%2, streamtest.Request{Frames: []string{`{"prompt":"x"}`}}))
	}
	for _, name := range []string{"a", "b", "c"} {
		if n := d.inBudget(name); n != 4 {
			t.Errorf("%d in %s", n, name)
		}
	}
	if shed := d.client(0, streamtest.Request{}); shed.Result().Status != 429 ||
		!strings.Contains(shed.Result().Body, "over_budget") {
		t.Errorf("%+v", shed.Result())
	}
	for i, c := range open {
		c.endBy(i)
	}
	d.advance(time.Second)
	for _, name := range []string{"a", "b", "c"} {
		if n := d.inBudget(name); n != 0 {
			t.Errorf("%d left in %s", n, name)
		}
	}
	if note := d.access[1]; !strings.Contains(note, " reason=chosen load=") || !strings.Contains(note, " charged=10") {
		t.Errorf("the access log has %q", note)
	}
}

// A request that does not get to a target gives its tenant's budget back, and its place.
func TestTenantGetsBackWhatTargetsRefuse(t *testing.T) {
	d := startBudget(t, 1, `"weight":1,"max_concurrent_requests":1`, tenantsConfig)
	of := func(tenant string) streamtest.Request {
		return streamtest.Request{Headers: [][2]string{{"x-tenant", tenant}}, Frames: []string{`{"prompt":"x"}`}}
	}
	var open []*fakeStream
	for _, tenant := range []string{"a", "b", "c"} {
		open = append(open, d.client(0, of(tenant)))
	}
	for range 30 { // of 1000 tokens a minute, each of them would take 100
		if shed := d.client(0, of("d")); !strings.Contains(shed.Result().Body, `"over_budget"`) {
			t.Fatalf("%+v", shed.Result())
		}
		if shed := d.client(0, of("a")); !strings.Contains(shed.Result().Body, `"tenant_over_budget"`) {
			t.Fatalf("%+v", shed.Result())
		}
	}
	for _, c := range open {
		c.Finish()
	}
	if c := d.client(0, of("d")); c.Upstream() < 0 {
		t.Errorf("%+v", c.Result())
	} else {
		c.Finish()
	}
	d.emptiedTenants("a", "b", "c", "d")
}

// A request that a backend has refused counts among its tenant's requests a minute, as it does at the backend, and is
// given its tokens back.
func TestRefusedRequestsOfTenantsCount(t *testing.T) {
	d := startBudget(t, 1, `"weight":1`,
		`"tenants":{"tenant_header":"x-tenant","max_requests_per_minute":3,"max_tokens_per_minute":250}`)
	send := func() *fakeStream {
		return d.client(0, streamtest.Request{Headers: [][2]string{{"x-tenant", "a"}}, Frames: []string{`{"prompt":"x"}`}})
	}
	for i, status := range []int{400, 422, 404} {
		c := send()
		if c.Upstream() < 0 {
			t.Fatalf("request %d: %+v", i+1, c.Result())
		}
		c.Head(status)
		c.Finish()
	}
	if shed := send(); !strings.Contains(shed.Result().Body, `"tenant_over_budget"`) {
		t.Errorf("the fourth in a minute: %+v", shed.Result())
	}
}

// However many names clients make up, no request is lost, those who are known keep to their budgets, and there is room
// again when the names are not used any more.
func TestNamesOfTenantsThatAreMadeUp(t *testing.T) {
	d := startBudget(t, 2, `"weight":1`, tenantsConfig)
	send := func(tenant string) *fakeStream {
		return d.client(0, streamtest.Request{
			Headers: [][2]string{{"x-tenant", tenant}}, Frames: []string{`{"prompt":"x"}`},
		})
	}
	known := send("known")
	for i := range 10_000 {
		c := send(fmt.Sprint(i))
		if c.Upstream() < 0 {
			t.Fatalf("tenant %d: %+v", i, c.Result())
		}
		c.Finish()
	}
	if shed := send("known"); !strings.Contains(shed.Result().Body, `"tenant_over_budget"`) {
		t.Errorf("%+v", shed.Result())
	}
	known.Finish()
	send("known").Finish()
	for range 65 {
		d.advance(time.Second)
	}
	first := send("new")
	if shed := send("new"); !strings.Contains(shed.Result().Body, `"tenant_over_budget"`) {
		t.Errorf("a tenant that came later is not limited: %+v", shed.Result())
	}
	first.Finish()
	d.emptiedTenants("known", "new", "1", "9999")
}

// emptiedTenants fails the test unless nothing is in flight of the tenants.
func (d *fakeDriver) emptiedTenants(tenants ...string) {
	d.t.Helper()
	for _, tenant := range tenants {
		plan := (&lb.TenantBudget{}).Plan(lb.TenantsScope+views.BudgetScope, xxhash.Sum64String("tenant "+tenant), 0)
		loads, err := d.workers[0].vm.Stores.Local.Loads(plan.Scope, []string{plan.Candidates[0].Addr}, nil)
		if err != nil || loads[0].Requests != 0 {
			d.t.Errorf("tenant %s has %d requests in flight, %v", tenant, loads[0].Requests, err)
		}
	}
}

// In shadow mode nothing is refused.
func TestBudgetsInShadow(t *testing.T) {
	d := startBudget(t, 1, `"weight":1,"max_tokens_per_minute":1`, tenantsConfig+`,"shadow":true`)
	for range 10 {
		c := d.client(0, streamtest.Request{Frames: []string{`{"prompt":"x"}`}})
		if c.Upstream() < 0 || c.target() != fakeCluster {
			t.Fatalf("%+v at %s", c.Result(), c.target())
		}
		c.Finish()
	}
}

// The headers of an answer are read with one call of the gateway, whatever of them matters.
func TestHeadersAreReadAtOnce(t *testing.T) {
	for _, config := range []string{
		amongConfig("global_least_request", ""),
		`{"lb_type":"cluster","lb_policy":"token_budget","lb_config":{"targets":{"a":{"weight":1}}}}`,
	} {
		d := startSites(t, 1, config)
		calls := map[string]int{}
		d.onCall = func(name string) { calls[name]++ }
		c := d.client(0, streamtest.Request{Frames: []string{`{"prompt":"x"}`}})
		c.Head(200)
		c.Finish()
		if calls["ResponseHeaders"] != 1 || calls["ResponseHeader"] > 0 {
			t.Errorf("%s: calls %v", config, calls)
		}
	}
}
