package main

import (
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/plugin/config"
)

// series is samples every 6 s over the length, with noise of so many MiB.
func series(length time.Duration, noise float64, mib func(hours float64) float64) []sample {
	r := rand.New(rand.NewPCG(1, 2))
	var out []sample
	for at := time.Duration(0); at < length; at += 6 * time.Second {
		out = append(out, sample{at, mib(at.Hours()) + noise*r.NormFloat64()})
	}
	return out
}

func TestJudge(t *testing.T) {
	flat := func(float64) float64 { return 150 }
	ramp := func(h float64) float64 { return 190 - 14*math.Exp(-h*3600/200) } // flat from 750 s on
	// 20 bytes of each of 10⁶ requests an hour
	leak := func(h float64) float64 { return ramp(h) + 20e6/float64(mib)*h }
	gross := func(h float64) float64 { return 150 + 900*h }
	step := func(h float64) float64 { return ramp(h) + 4*math.Round(h) }
	saw := func(h float64) float64 { return 150 + 4*math.Abs(math.Sin(100*h)) }
	steady := func(h float64) float64 { return 100 + 12*h }
	for name, tt := range map[string]struct {
		samples []sample
		grows   bool
	}{
		"ramp, then flat":              {series(time.Hour, 0.3, ramp), false},
		"ramp and a slow leak":         {series(time.Hour, 0.3, leak), true},
		"noise":                        {series(time.Hour, 5, flat), false},
		"a leak in noise":              {series(time.Hour, 3, leak), true},
		"ten minutes in the ramp":      {series(10*time.Minute, 0.3, ramp), false},
		"ten minutes, a gross leak":    {series(10*time.Minute, 0.3, gross), true},
		"a step of 4 MiB":              {series(time.Hour, 0.3, step), false},
		"a heap that is given back":    {series(time.Hour, 0.3, saw), false},
		"one outlier":                  {append(series(time.Hour, 0.3, ramp), sample{time.Hour, 500}), false},
		"too few":                      {series(10*time.Second, 0, leak), false},
		"nothing":                      {nil, false},
		"an hour that only ever grows": {series(time.Hour, 0.3, steady), true},
	} {
		t.Run(name, func(t *testing.T) {
			g := judge(tt.samples)
			var length time.Duration
			if n := len(tt.samples); n > 0 {
				length = tt.samples[n-1].at + time.Minute
			}
			if err := g.grows(length); (err != nil) != tt.grows {
				t.Errorf("%v of %+v, want growth: %t", err, g, tt.grows)
			}
		})
	}
}

func TestThirds(t *testing.T) {
	g := judge([]sample{{0, 9}, {1, 1}, {2, 2}, {3, 5}, {4, 5}, {5, 5}, {6, 30}, {7, 10}, {8, 20}})
	if g.Thirds != [3]float64{2, 5, 20} {
		t.Errorf("thirds %v", g.Thirds)
	}
}

func TestRequestsAreMixed(t *testing.T) {
	m := &mix{}
	m.use([]string{"llm-1", "llm-2"})
	r := rand.New(rand.NewPCG(1, 2))
	left, seen := 0, map[string]int{}
	for i := range 4000 {
		q := m.request(r, 100*i)
		if q.Leave.At != loadgen.Stay {
			left++
		}
		seen["cluster "+q.Header.Get(clusterHeader)]++
		seen["tenants "+q.Header.Get(tenantHeader)]++
		seen["models "+q.Model]++
		seen["length "+strconv.Itoa(len(q.Body)>>17)]++
	}
	if left < 300 || left > 500 {
		t.Errorf("%d of 4000 clients leave, want about 400", left)
	}
	for kind, least := range map[string]int{"cluster ": 3, "tenants ": 200, "models ": 160, "length ": 2} {
		n := 0
		for k := range seen {
			if strings.HasPrefix(k, kind) {
				n++
			}
		}
		if n < least {
			t.Errorf("%d different %s, want %d", n, kind, least)
		}
	}
}

func TestConfigurationsAreTaken(t *testing.T) {
	c := &changer{rand: rand.New(rand.NewPCG(1, 2)), known: []string{"llm-1", "llm-2"}}
	policies, rules := map[string]bool{}, 0
	for range 500 {
		text := c.config()
		set, err := config.Parse([]byte(text), config.Envoy)
		if err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		for _, p := range set.All() {
			policies[p.Policy] = true
		}
		rules += len(set.All()) - 1
	}
	if len(policies) != 3 || rules == 0 {
		t.Errorf("policies %v, %d rules", policies, rules)
	}
}

func TestRests(t *testing.T) {
	const gauge = "wasmcustom.warmgate_inflight_requests;cluster=llm-1;endpoint=127.0.0.1:1"
	for name, tt := range map[string]struct {
		stats map[string]float64
		rests bool
	}{
		"at rest":                  {map[string]float64{gauge: 0, "wasmcustom.warmgate_owners": 3}, true},
		"a cluster that is gone":   {map[string]float64{gauge: 1, "wasmcustom.warmgate_owners": 3}, false},
		"an owner that has stayed": {map[string]float64{"wasmcustom.warmgate_owners": 4}, false},
		"a queue that is not empty": {map[string]float64{
			"wasmcustom.warmgate_queue_length;cluster=llm;class=default": 1, "wasmcustom.warmgate_owners": 3,
		}, false},
		"statistics were never there": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := rests(tt.stats, 2); (err == nil) != tt.rests {
				t.Errorf("%v, want rest: %t", err, tt.rests)
			}
		})
	}
}
