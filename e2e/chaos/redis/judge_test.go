package redis

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/lab"
)

// outageOf is an outage that adds the given times, in ms, to a p99 of 2 ms.
func outageOf(first, later float64) lab.Result {
	return lab.Result{RedisResult: &lab.RedisResult{
		Outage: true, BaseP99MS: 2, FirstP99MS: 2 + first, LaterP99MS: 2 + later, AddedFirstMS: first,
		AddedLaterMS: later,
	}}
}

func at(lo, median, hi float64) bench.Spread { return bench.Spread{Median: median, Min: lo, Max: hi} }

func TestJudge(t *testing.T) {
	unmeasured := outageOf(500, -2) // over before its second second
	trouble, shippedOnly := outageOf(500, 500), lab.Result{}
	trouble.Outage = false
	for name, c := range map[string]struct {
		scenes []lab.Result
		want   Judgement
	}{
		"on target":     {[]lab.Result{outageOf(25, 1)}, Judgement{1, at(25, 25, 25), at(1, 1, 1), true}},
		"first is slow": {[]lab.Result{outageOf(25.1, 0)}, Judgement{1, at(25.1, 25.1, 25.1), at(0, 0, 0), false}},
		"later is slow": {[]lab.Result{outageOf(1, 1.1)}, Judgement{1, at(1, 1, 1), at(1.1, 1.1, 1.1), false}},
		"median of three": {
			[]lab.Result{outageOf(90, 0.5), outageOf(20, -1), outageOf(3, 40)},
			Judgement{3, at(3, 20, 90), at(-1, 0.5, 40), true},
		},
		"median of two": {
			[]lab.Result{outageOf(30, 3), outageOf(10, 1)},
			Judgement{2, at(10, 20, 30), at(1, 2, 3), false},
		},
		"others left out": {
			[]lab.Result{trouble, outageOf(4, 0), unmeasured},
			Judgement{1, at(4, 4, 4), at(0, 0, 0), true},
		},
		"faster than calm": {[]lab.Result{outageOf(-1, -1)}, Judgement{1, at(-1, -1, -1), at(-1, -1, -1), true}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Judge(c.scenes)
			if got == nil || *got != c.want {
				t.Fatalf("%+v, want %+v", got, c.want)
			}
			if strings.Contains(got.String(), "MISSED") == c.want.TargetsMet {
				t.Errorf("prints %q", got)
			}
		})
	}
	if got := Judge([]lab.Result{trouble, unmeasured, shippedOnly}); got != nil {
		t.Errorf("no outage was measured, but judged: %+v", got)
	}
}

func TestFiguresHoldTheJudgement(t *testing.T) {
	for want, scenes := range map[string][]lab.Result{
		`"targets_met":true`:  {outageOf(1, 0)},
		`"targets_met":false`: {outageOf(1, 2)},
	} {
		line, err := json.Marshal(struct{ *Judgement }{Judge(scenes)})
		if err != nil || !strings.Contains(string(line), want) {
			t.Errorf("%s, %v: no %s", line, err, want)
		}
	}
	if line, err := json.Marshal(struct{ *Judgement }{}); err != nil || strings.Contains(string(line), "targets_met") {
		t.Errorf("%s, %v: judged without an outage", line, err)
	}
}

func TestMinus(t *testing.T) {
	got := minus(map[string]int{"a": 3, "b": 1, "c": 2}, map[string]int{"a": 1, "b": 1})
	if len(got) != 2 || got["a"] != 2 || got["c"] != 2 {
		t.Errorf("%v", got)
	}
}
