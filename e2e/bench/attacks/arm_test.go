package attacks

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/redisclient"
)

// TestArmWithAttacker plays a control and an attack for a short time.
func TestArmWithAttacker(t *testing.T) {
	s := settings{
		Settings: bench.Settings{Workers: 1, Seed: 3}, load: 0.3, warm: 100 * time.Millisecond,
		span: 900 * time.Millisecond,
	}
	some, err := selected("1b")
	if err != nil {
		t.Fatal(err)
	}
	sc := scenarioOf("tokens")
	control, with := &arm{scenario: sc}, &arm{scenario: sc, attack: &some[0]}
	if err := playAll(t.Context(), s, []*arm{control, with}); err != nil {
		t.Fatal(err)
	}
	for _, a := range []*arm{control, with} {
		sum := loadgen.Summarize(a.samples)
		if sum.OK == 0 || sum.OK != len(a.traffic) {
			t.Errorf("%s: %+v", a.name(), sum)
		}
		if served := counts(a.samples, sc.servers); len(a.samples) == 0 || shares(served)[0] == 1 {
			t.Errorf("%s: by server %v", a.name(), served)
		}
	}
	if len(with.shots) == 0 || with.answers["200"]+with.answers["400"] != len(with.shots) ||
		len(with.held) != len(with.shots) {
		t.Errorf("%d shots answered %v, %d at servers", len(with.shots), with.answers, len(with.held))
	}
	if len(control.shots) != 0 || len(control.held) != 0 {
		t.Errorf("the control was attacked: %d shots, %d at servers", len(control.shots), len(control.held))
	}
}

func TestCrowdDies(t *testing.T) {
	server := redisserver.StartT(t, redisserver.Options{Config: []string{"slowlog-log-slower-than 0"}})
	endpoints := []string{"10.0.0.1:8000", "10.0.0.2:8000"}
	c, err := gather(server.Addr(), endpoints, 3, 39)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if err := c.beginToDie(); err != nil {
		t.Fatal(err)
	}
	longest, slow, owners, err := slowest(server)
	if err != nil || longest <= 0 || owners != 3 || slow < 0 {
		t.Errorf("longest script %v, %d slow, %d owners, %v", longest, slow, owners, err)
	}
	table, err := server.Do("GET", redisclient.KeysOf(scope).Table)
	if err != nil {
		t.Fatal(err)
	}
	var requests int64
	for _, load := range redisclient.ParseLoads(table.Bytes(), map[string]int{endpoints[0]: 0, endpoints[1]: 1}) {
		requests += load.Requests
	}
	if requests != 3*39 {
		t.Errorf("%d requests are counted, want %d", requests, 3*39)
	}
	var none *crowd
	none.close()
	if err := none.beginToDie(); err != nil {
		t.Error(err)
	}
}
