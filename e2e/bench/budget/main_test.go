package budget

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
)

// played is a report that meets all targets.
func played() *report {
	rep := &report{settings: settings{
		Settings: bench.Settings{Own: apiName, Rounds: 1}, ttl: 3 * time.Second,
	}}
	for _, c := range contenders {
		r := result{
			makespan: 40 * time.Second, perfect: 30 * time.Second, shareError: 0.01, tpmExcess: 1,
			waitLarge: 2 * time.Second, waitMedian: time.Second, stampede: 1.5,
		}
		switch c.name {
		case batchesName:
			r.makespan, r.unfinished = 100*time.Second, 1
		case killedName:
			r.deaths = deaths{workers: 5, back: 3500 * time.Millisecond}
		}
		rep.contenders = append(rep.contenders, c)
		rep.Add("", c.name, r)
	}
	rep.costs = []costs{{perSecond: 6000, p99: 5 * time.Millisecond}}
	return rep
}

// at returns what a contender did.
func (rep *report) at(name string) *result { return &rep.Of("", name)[0] }

// The last line has the figures of the own contender, beside those of all.
func TestLine(t *testing.T) {
	rep := played()
	l := rep.line()
	for name, want := range map[string]float64{
		"makespan_s": 40, "makespan_vs_batches": 0.4, "wait_p99_large_vs_median": 2, "stampede": 1.5,
		"stampede_keyless": 1.5, "asks_max_vs_mean": 1.5, "schedule_per_s": 6000, "schedule_p99_ms": 5,
	} {
		if l[name] != want {
			t.Errorf("%s is %v, want %v", name, l[name], want)
		}
	}
	all := l["contenders"].(map[string]bench.Line)
	if l["target_met"] != true || all[batchesName]["audit"] != 1 || all[batchesName]["asks_max_vs_mean"] != nil ||
		all[killedName]["back_after_s"] != 3.5 {
		t.Errorf("%+v", l)
	}
	if len(rep.table().Rows) != len(contenders) || len(rep.further()) != 1 || len(rep.configuration()) < 20 {
		t.Error("the tables are not whole")
	}
	cost := &report{settings: rep.settings, costs: rep.costs}
	if l := cost.line(); l["target_met"] != true || l["makespan_s"] != nil || l["schedule_per_s"] != 6000.0 {
		t.Errorf("the cost alone: %+v", l)
	}
}

// TestNotMet spoils a report that meets all targets, in one way after another.
func TestNotMet(t *testing.T) {
	for _, c := range []struct {
		why   string
		spoil func(rep *report)
	}{
		{"batches was not played", func(rep *report) { rep.Drop("", batchesName) }},
		{"makespan_vs_batches is above 0.5", func(rep *report) { rep.at(apiName).makespan = 51 * time.Second }},
		{"share_error_max is above 0.05", func(rep *report) { rep.at(apiName).shareError = 0.051 }},
		{"tpm_excess is above 1.001", func(rep *report) { rep.at(apiName).tpmExcess = 1.002 }},
		{"wait_p99_large_vs_median is above 3", func(rep *report) { rep.at(apiName).waitLarge = 4 * time.Second }},
		{"stampede is above 2", func(rep *report) { rep.at(crowdName).stampede = 2.1 }},
		{`"api crowd" was not played`, func(rep *report) { rep.Drop("", crowdName) }},
		{"stampede_keyless is above 2", func(rep *report) { rep.at(keylessName).stampede = 2.1 }},
		{`"api crowd keyless" was not played`, func(rep *report) { rep.Drop("", keylessName) }},
		{`"api killed" was not played`, func(rep *report) { rep.Drop("", killedName) }},
		{"no worker was killed", func(rep *report) { rep.at(killedName).deaths = deaths{} }},
		{"slots came back after 4.10 s", func(rep *report) {
			rep.at(killedName).deaths.back = 4100 * time.Millisecond
		}},
		{`the audit of "proxy" is not 0`, func(rep *report) { rep.at("proxy").unfinished = 1 }},
		{"schedule_per_s is below 5000", func(rep *report) { rep.costs[0].perSecond = 4999 }},
		{"schedule_p99_ms is above 20", func(rep *report) { rep.costs[0].p99 = 21 * time.Millisecond }},
	} {
		rep := played()
		c.spoil(rep)
		l := rep.line()
		if l["target_met"] != false || !slices.Equal(l["not_met"].(bench.Reasons), bench.Reasons{c.why}) {
			t.Errorf("%q, want %q", l["not_met"], c.why)
		}
	}
}

// Wrong flags are named.
func TestSettings(t *testing.T) {
	good := settings{Settings: bench.Settings{Rounds: 1, Lanes: 1}, tasks: 100, ttl: time.Second}
	if s := good; s.check() != nil || !s.plays("cost") {
		t.Errorf("%+v", s)
	}
	for want, spoil := range map[string]func(s *settings){
		"-rounds": func(s *settings) { s.Rounds = 0 },
		"-ttl":    func(s *settings) { s.ttl = time.Millisecond },
		"no cast": func(s *settings) { s.parts = "tasks,cast" },
	} {
		s := good
		spoil(&s)
		if err := s.check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
