package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
)

// played is a report that meets all targets.
func played() *report {
	rep := &report{settings: settings{own: apiName, rounds: 1, ttl: 3 * time.Second}}
	for _, c := range contenders {
		r := result{
			makespan: 40 * time.Second, perfect: 30 * time.Second, shareError: 0.01, tpmExcess: 1,
			waitLarge: 2 * time.Second, waitMedian: time.Second, stampede: 1.5,
		}
		switch c.name {
		case batchesName:
			r.makespan, r.unfinished = 100*time.Second, 1
		case killedName:
			r.deaths = deaths{workers: 5, placed: 3, back: 3500 * time.Millisecond}
		}
		rep.contenders, rep.results = append(rep.contenders, c), append(rep.results, []result{r})
	}
	rep.costs = []costs{{perSecond: 6000, p99: 5 * time.Millisecond}}
	return rep
}

// at returns what a contender did.
func (rep *report) at(name string) *result {
	i := slices.IndexFunc(rep.contenders, func(c contender) bool { return c.name == name })
	return &rep.results[i][0]
}

// The last line has the figures of the own contender, beside those of all.
func TestLine(t *testing.T) {
	rep := played()
	l := rep.line()
	if !l.Met || *l.Batches != 0.4 || l.Waits != 2 || *l.Stampede != 1.5 || *l.Calls != 1.5 ||
		*l.PerSecond != 6000 || *l.P99 != 5 ||
		l.All[batchesName].Audit != 1 || l.All[batchesName].Calls != nil || *l.All[killedName].Back != 3.5 {
		t.Errorf("%+v", l)
	}
	if len(rep.table().Rows) != len(contenders) || len(rep.further()) != 1 || len(rep.configuration()) < 20 {
		t.Error("the tables are not whole")
	}
	text, err := json.Marshal(l)
	if err != nil || !strings.HasPrefix(string(text), `{"bench":"budget","own":"api","makespan_s":40,`) {
		t.Errorf("%s, %v", text, err)
	}
	rep.contenders, rep.results = nil, nil
	if l := rep.line(); !l.Met || l.figures != nil || *l.PerSecond != 6000 {
		t.Errorf("the cost alone: %+v", l)
	}
}

// TestNotMet spoils a report that meets all targets, in one way after another.
func TestNotMet(t *testing.T) {
	drop := func(rep *report, name string) {
		i := slices.IndexFunc(rep.contenders, func(c contender) bool { return c.name == name })
		rep.contenders, rep.results = slices.Delete(rep.contenders, i, i+1), slices.Delete(rep.results, i, i+1)
	}
	for _, c := range []struct {
		why   string
		spoil func(rep *report)
	}{
		{"batches was not played", func(rep *report) { drop(rep, batchesName) }},
		{"makespan_vs_batches is above 0.5", func(rep *report) { rep.at(apiName).makespan = 51 * time.Second }},
		{"share_error_max is above 0.05", func(rep *report) { rep.at(apiName).shareError = 0.051 }},
		{"tpm_excess is above 1.001", func(rep *report) { rep.at(apiName).tpmExcess = 1.002 }},
		{"wait_p99_large_vs_median is above 3", func(rep *report) { rep.at(apiName).waitLarge = 4 * time.Second }},
		{"stampede is above 2", func(rep *report) { rep.at(crowdName).stampede = 2.1 }},
		{`"api crowd" was not played`, func(rep *report) { drop(rep, crowdName) }},
		{`"api killed" was not played`, func(rep *report) { drop(rep, killedName) }},
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
		if l := rep.line(); l.Met || len(l.NotMet) != 1 || l.NotMet[0] != c.why {
			t.Errorf("%q, want %q", l.NotMet, c.why)
		}
	}
}

// Wrong flags are named.
func TestSettings(t *testing.T) {
	good := settings{rounds: 1, lanes: 1, tasks: 100, ttl: time.Second}
	if s := good; s.check() != nil || s.own != apiName || !s.plays("cost") {
		t.Errorf("%+v", s)
	}
	for want, spoil := range map[string]func(s *settings){
		"-rounds":        func(s *settings) { s.rounds = 0 },
		"-ttl":           func(s *settings) { s.ttl = time.Millisecond },
		`-parts: "cast"`: func(s *settings) { s.parts = "tasks,cast" },
	} {
		s := good
		spoil(&s)
		if err := s.check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
