package overhead

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/benchtest"
	"github.com/warmgate/warmgate/e2e/loadgen"
)

func TestChatRequestHasTheSize(t *testing.T) {
	for _, size := range []int{1 << 10, 16 << 10, 64 << 10, 256 << 10} {
		req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(chatRequest(size))))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(req.Body)
		if err != nil || len(body) != size || req.URL.Path != path {
			t.Errorf("%s with %d bytes (%v), want %d", req.URL.Path, len(body), err, size)
		}
		var chat struct {
			Messages []struct{ Role, Content string }
		}
		if err := json.Unmarshal(body, &chat); err != nil || len(chat.Messages) < 2 {
			t.Errorf("%d bytes: %d messages, %v", size, len(chat.Messages), err)
		}
		for _, m := range chat.Messages {
			if m.Role == "" || len(m.Content) > 2100 {
				t.Errorf("%d bytes: message of role %q with %d bytes", size, m.Role, len(m.Content))
			}
		}
	}
}

func TestUpstreamAnswersOnEveryPort(t *testing.T) {
	up, err := bench.StartUpstream(3)
	if err != nil {
		t.Fatal(err)
	}
	for _, addr := range up.Addrs(3) {
		res, err := loadgen.Raw{
			Addr: addr, Request: chatRequest(9 << 10), Connections: 2,
			Requests: 20,
		}.Run(context.Background())
		if err != nil || res.Requests != 20 || res.Non200+res.Errors != 0 {
			t.Errorf("%s: %+v, %v", addr, res, err)
		}
	}
	chunked := "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
	addr := up.Addrs(1)[0]
	if res, err := (loadgen.Raw{Addr: addr, Request: []byte(chunked), Requests: 5}).Run(context.Background()); err !=
		nil || res.Errors > 0 {
		t.Errorf("chunked: %+v, %v", res, err)
	}
	if got := up.Served(); got != 65 {
		t.Errorf("served %d requests, want 65", got)
	}
	if err := up.Close(); err != nil {
		t.Error(err)
	}
	short := loadgen.Raw{Addr: addr, Request: chatRequest(1 << 10), Requests: 1, Timeout: time.Second}
	if _, err := short.Run(context.Background()); err == nil {
		t.Error("a closed upstream still answers")
	}
}

func TestParseMapsFindsLinearMemories(t *testing.T) {
	for _, tc := range []struct {
		name, maps string
		want       []int64
	}{
		{"a memory and its reservation", "100000000-100a00000 rw-p 00000000 00:00 0 \n100a00000-300000000 ---p " +
			"00000000 00:00 0 \n", []int64{10 << 20}},
		{"two memories", "1000-2000 rw-p 0 00:00 0\n2000-200002000 ---p 0 00:00 0\n300000000-300003000 rw-p 0 00:00 " +
			"0\n300003000-500000000 ---p 0 00:00 0\n", []int64{4096, 12288}},
		{"a thread's stack has a small guard", "1000-2000 ---p 0 00:00 0\n2000-10000 rw-p 0 00:00 0\n10000-11000 " +
			"---p 0 00:00 0\n", nil},
		{"not adjacent", "1000-2000 rw-p 0 00:00 0\n3000-300000000 ---p 0 00:00 0\n", nil},
		{"code is not writable", "1000-2000 r-xp 0 00:00 0 /bin/x\n2000-300000000 ---p 0 00:00 0\n", nil},
	} {
		got, err := parseMaps(strings.NewReader(tc.maps))
		if err != nil || !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: %v, %v, want %v", tc.name, got, err, tc.want)
		}
	}
	for _, bad := range []string{"nonsense\n", "zz-10 rw-p\n", "10-zz rw-p\n"} {
		if _, err := parseMaps(strings.NewReader(bad)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

// madeUp is a report in which Warmgate takes the given multiple of readbody's CPU time in every round.
func madeUp(ratio float64, m *memory) *report {
	c := &cell{kib: 16, endpoints: 64, runs: map[string][]measurement{}}
	for round := range 5 {
		base := float64(100 * (round + 1)) // the machine slows down: pairing must cancel it
		for name, factor := range map[string]float64{
			none: 0.5, readbody: 1, requests: ratio, tokens: 1.25,
			prefix: 1.5,
		} {
			c.runs[name] = append(c.runs[name], measurement{cpu: base * factor, rate: 1000, p50: 10, p99: 20})
		}
	}
	return &report{
		settings: settings{Settings: bench.Settings{Rounds: 5}, connections: 8},
		wasm:     map[string]int64{"warmgate": 3 << 20},
		cells:    []*cell{c}, memory: m,
	}
}

func TestLine(t *testing.T) {
	flat := &memory{Early: 10 << 20, Late: 10 << 20}
	l := madeUp(1.2, flat).line()
	spread, cells := l["cpu_ratio_16k_64_spread"].(bench.Spread), l["cells"].([]bench.Line)
	if got := l.Value("cpu_ratio_16k_64"); !(math.Abs(got-1.2) < 1e-3) || spread.Max-spread.Min > 1e-9 {
		t.Errorf("ratio %v, spread %+v: want 1.2 in every round", got, spread)
	}
	if l["cpu_ratio_16k_64_tokens"] != 1.25 || l["cpu_ratio_16k_64_prefix"] != 1.5 || len(cells) != 1 ||
		cells[0]["cpu_us"].(map[string]float64)[none] != 150 {
		t.Errorf("line %+v", l)
	}
	for _, tc := range []struct {
		name   string
		ratio  float64
		memory *memory
		missed string
	}{
		{"all kept", 1.2, flat, ""},
		{"too slow", 1.4, flat, "cpu"},
		{"grows", 1.2, &memory{Early: 10 << 20, Late: 12 << 20}, "memory"},
		{"too large", 1.2, &memory{Early: 65 << 20, Late: 65 << 20}, "memory"},
	} {
		for name, met := range madeUp(tc.ratio, tc.memory).line()["targets_met"].(map[string]bool) {
			if met != (name != tc.missed && name != "hostile") { // of these nothing was measured
				t.Errorf("%s: %s is %v", tc.name, name, met)
			}
		}
	}
	raw, err := json.Marshal(l)
	if err != nil || !strings.Contains(string(raw), `"cpu_ratio_16k_64":1.2`) {
		t.Errorf("JSON %s, %v", raw, err)
	}
}

func TestReportNamesWhatWasMeasured(t *testing.T) {
	rep := madeUp(1.2, &memory{Requests: 7, Early: 10 << 20, Late: 10 << 20})
	benchtest.Published(t, rep.publish, bench.Machine(), "16 KiB, 64, requests", "1.20 (1.20..1.20)",
		`"unit":"tokens"`, "memory: 7 requests")
}

// TestVariantsInEnvoy runs every variant once in a real Envoy.
func TestVariantsInEnvoy(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Envoys")
	}
	ctx := context.Background()
	up, err := bench.StartUpstream(4)
	if err != nil {
		t.Fatal(err)
	}
	defer up.Close()
	variants, sizes, err := startVariants(ctx, up, true)
	defer func() {
		for _, v := range variants {
			if err := v.gateway.Stop(); err != nil {
				t.Error(err)
			}
		}
	}()
	if err != nil {
		t.Fatal(err)
	}
	if sizes["warmgate"] < 1<<20 || sizes[readbody] < 1<<20 {
		t.Errorf("sizes %v", sizes)
	}
	if err := setEndpoints(ctx, variants, endpoints(up, 4)); err != nil {
		t.Fatal(err)
	}
	for _, v := range variants {
		if _, err := v.measure(ctx, 2, 50, chatRequest(4<<10)); err != nil { // fails unless Warmgate chose for each
			t.Error(err)
		}
		vms, err := linearMemories(v.gateway.PID())
		if err != nil {
			t.Fatal(err)
		}
		if (len(vms) == 0) != (v.name == none) {
			t.Errorf("%s: %d Wasm memories", v.name, len(vms))
		}
	}
}

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
