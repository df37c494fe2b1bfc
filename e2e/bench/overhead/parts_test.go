package overhead

import (
	"context"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/benchtest"
)

// runsOf makes up rounds in which each variant costs what is given, on a machine that slows down.
func runsOf(costs map[string]float64) map[string][]measurement {
	runs := map[string][]measurement{}
	for round := range 3 {
		for name, cost := range costs {
			runs[name] = append(runs[name], measurement{cpu: cost + 10*float64(round)})
		}
	}
	return runs
}

func TestSplit(t *testing.T) {
	s := splitOf(64, runsOf(map[string]float64{none: 50, readbody: 70, scan: 100, hash: 90, chain: 160, prefix: 250}))
	for name, c := range map[string]struct{ got, want float64 }{
		"all": {s.All.Median, 200}, "body": {s.Body.Median, 20}, "check": {
			s.Check.Median,
			30,
		}, "hash": {s.Hash.Median, 20},
		"walk": {s.Walk.Median, 40}, "rest": {s.Rest.Median, 90}, "JSON": {s.JSON, 0.35}, "hashing": {
			s.Hashy,
			0.1,
		}, "calls": {s.Calls, 0.55},
		"together": {s.JSON + s.Hashy + s.Calls, 1},
	} {
		if math.Abs(c.got-c.want) > 1e-9 {
			t.Errorf("%s: %g, want %g", name, c.got, c.want)
		}
	}
	if s.KiB != 64 || s.Walk.Max-s.Walk.Min > 1e-9 {
		t.Errorf("%+v: a slower machine must cancel out", s)
	}
}

func TestWorst(t *testing.T) {
	list := []hostile{
		{"a", bench.Spread{Median: 3}},
		{"b", bench.Spread{Median: 2500}},
		{"c", bench.Spread{Median: 7, Max: 9000}},
	}
	if got := worst(list); got.Name != "b" {
		t.Errorf("worst is %q", got.Name)
	}
	rep := madeUp(1, nil)
	hostileMet := func() bool { return rep.line()["targets_met"].(map[string]bool)["hostile"] }
	if hostileMet() {
		t.Error("the target was kept by what was not measured")
	}
	for _, c := range []struct {
		us   float64
		kept bool
	}{{1999, true}, {2001, false}} {
		rep.hostile = []hostile{{"a", bench.Spread{Median: c.us}}}
		if hostileMet() != c.kept || rep.line()["hostile_worst_us"] != c.us {
			t.Errorf("%g µs: kept %v, worst %v", c.us, hostileMet(), rep.line()["hostile_worst_us"])
		}
	}
}

func TestReportOfAllParts(t *testing.T) {
	rep := madeUp(1.2, nil)
	rep.prompts = []split{
		splitOf(64, runsOf(map[string]float64{none: 50, readbody: 70, scan: 100, hash: 90, chain: 160, prefix: 250})),
	}
	rep.hostile = []hostile{{"many keys", bench.Spread{Median: 1234}}}
	rep.chunks = map[string]bench.Spread{
		none: {Median: 14}, tokens: {Median: 15}, prefix: {Median: 16.5},
		usage: {Median: 1.5},
	}
	benchtest.Published(t, rep.publish, "16 KiB, 64, requests", "JSON walked", "many keys", "1234",
		"looking for the usage", `"chunk_us_prefix":16.5`, `"chunk_us_usage":1.5`, `"hostile_worst_us":1234`,
		`"json_share":0.35`)
	benchtest.Published(t, (&report{}).publish) // of nothing
}

// The streamer answers with as many events as the request orders, one at a time, and the last one has the usage.
func TestStreamer(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s := startStreamer(2)
	defer s.server.Close()
	for _, events := range []int{1, 2, 50} {
		for stream := range s.read {
			if err := s.listen(ctx, http.DefaultClient, s.server.URL, []byte("{}"), stream, events); err != nil {
				t.Errorf("%d events: %v", events, err)
			}
		}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.server.URL+path, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("a request of somebody else is answered %d", resp.StatusCode)
	}
	if err := s.listen(ctx, http.DefaultClient, s.server.URL, nil, 7, 1); err == nil {
		t.Error("a stream that there is not was listened to")
	}
	if !strings.Contains(lastEvent, `"cached_tokens"`) || strings.Contains(event, "usage") {
		t.Error("the usage has to be in the last event, and only there")
	}
}
