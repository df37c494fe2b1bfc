package streamtest

import (
	"fmt"
	"strings"
	"time"
)

// modelScenarios are what the plugin makes of models that it knows by lists, and of where their requests were.
var modelScenarios = []scenario{
	// Not on gateways that scenarios share: "an adapter that is listed" is to find one that has read no lists.
	{name: "a model that nobody lists", endpoints: 3, needs: []Ability{SimulatedTime}, run: unlistedModel},
	{name: "a model stays together", endpoints: 4, config: `"models":{"affinity":true}`, run: modelsStayTogether},
}

// unlistedModel has one of three endpoints list an adapter: a model that none lists is refused, also that adapter once
// it is unloaded, and nothing is while a list cannot be read.
func unlistedModel(t *run) {
	const base, both = `{"data":[{"id":"base"}]}`, `{"data":[{"id":"base"},{"id":"sql","parent":"base"}]}`
	t.setPages(base, base, both)
	t.apply(`"body_timeout":"10s","models":{"cluster":"warmgate-metrics","path":"/metrics","interval":"1s",` +
		`"refuse_unknown":true}`)
	t.mark(decisions("no_model"))
	wantRefused := func(model, models string) {
		t.Helper()
		s := t.Open(ofModel(model, 20))
		t.Advance(200 * time.Millisecond)
		if r := s.Result(); s.Upstream() >= 0 || r.Status != 404 ||
			!strings.HasSuffix(r.Body, `"code":"model_not_found","models":`+models+`}}`) {
			t.Errorf("%s: at endpoint %d, answered %d, %q", model, s.Upstream(), r.Status, r.Body)
		}
		s.wantReason("no_model")
	}
	wantSent := func(model string, endpoint int) {
		t.Helper()
		s := t.Open(ofModel(model, 20))
		t.Advance(200 * time.Millisecond)
		if at := s.Upstream(); at < 0 || endpoint >= 0 && at != endpoint {
			t.Errorf("%s: at endpoint %d", model, at)
		}
		t.finish(s)
	}
	wantRefused("typo", `["base","sql"]`)
	for range 4 {
		wantSent("sql", 2)
		wantSent("base", -1)
	}
	t.wantGrown(decisions("no_model"), 1)
	t.setPages(base, base, base)
	t.Advance(2 * time.Second)
	wantRefused("sql", `["base"]`)
	t.SetPage(1, "no list")
	t.Advance(2 * time.Second)
	wantSent("sql", -1)
	t.wantDrained()
}

// modelsStayTogether: as long as nothing is in flight each model has its endpoint, and when it is asked for much, more.
func modelsStayTogether(t *run) {
	at := map[string]int{}
	for i := range 24 {
		model := fmt.Sprint("m", i%4)
		r := ofModel(model, 20)
		r.Worker = i / 4 % t.Workers()
		s := t.begin(r)
		if first, known := at[model]; known && first != s.Upstream() {
			t.Errorf("%s is at endpoint %d, before at %d", model, s.Upstream(), first)
		}
		at[model] = s.Upstream()
		t.finish(s)
	}
	loads, streams := make([]int, t.size), []*stream{}
	for i := range 24 {
		r := ofModel("m0", 20)
		r.Worker = i % t.Workers()
		s := t.begin(r)
		loads[s.Upstream()]++
		streams = append(streams, s)
	}
	if n := loads[at["m0"]]; n < 6 || n > 16 {
		t.Errorf("of 24 requests for one model %d are where it was: %v", n, loads)
	}
	t.finish(streams...)
	t.wantDrained()
}
