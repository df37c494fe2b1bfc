package redis

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/benchtest"
	"github.com/warmgate/warmgate/e2e/redisserver"
)

// TestWhole takes every measurement once on every server.
func TestWhole(t *testing.T) {
	for _, version := range redisserver.Versions() {
		t.Run(version, func(t *testing.T) {
			s := tiny(5, 64)
			s.version = version
			rep, err := collect(context.Background(), s, io.Discard)
			if errors.Is(err, redisserver.ErrUnavailable) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			l := rep.line()
			measured(t, l)
			bounded(t, l)
		})
	}
}

// measured looks for what has to be in the last line.
func measured(t *testing.T, l bench.Line) {
	t.Helper()
	cells := l["cells"].([]bench.Line)
	if len(cells) != 2*len(contenders) || l["round_trips"] != 1.0 || !(math.Abs(l.Value("round_trips_all")-
		2.01) < 1e-9) || !l["targets_met"].(map[string]bool)["round_trips"] {
		t.Errorf("%d cells, %+v", len(cells), l)
	}
	for _, c := range cells {
		for _, name := range []string{
			"reserve_us", "release_us", "cpu_us", "requests_per_core", "bytes_sent", "bytes_received",
		} {
			if !(c.Value(name) > 0) {
				t.Errorf("%s is not measured: %+v", name, c)
			}
		}
		ours := c["contender"] == warmgate
		if (c.Value("heartbeat_us") > 0) != ours || (c.Value("heartbeat_bytes_sent") > 0) != ours {
			t.Errorf("heartbeats: %+v", c)
		}
	}
	for _, name := range []string{
		"prefix_vs_xor_5", "prefix_vs_xor_64", "prefix_vs_keys_5", "prefix_vs_keys_64", "prefix_reserve_us_64",
		"schedule_script_us", "budgets_vs_none", "script_ms_max", "script_wait_p99_ms", "bytes_vs_plain",
	} {
		if !(l.Value(name) > 0) {
			t.Errorf("%s is %v", name, l[name])
		}
	}
	if l["prefix_vs_xor_1"] != nil || l["prefix_targets_met"] == nil || l["schedule_script_target_met"] == nil {
		t.Errorf("%+v", l)
	}
	turns := l["prefix_one_message"].([]bench.Line)
	if len(turns) != 1 || turns[0]["blocks"] != 3 || turns[0]["endpoints"] != 8 ||
		turns[0]["vs_xor"].(bench.Spread).Min <= 0 {
		t.Errorf("prompts of one message: %+v", turns)
	}
	ms := l["script_ms"].(bench.Line)
	if !(min(ms.Value("heartbeat"), ms.Value("assert"), ms.Value("candidates")) > 0) {
		t.Errorf("longest scripts: %+v", ms)
	}
}

// bounded looks at what does not depend on the machine: what goes over the wire, and into memory.
func bounded(t *testing.T, l bench.Line) {
	t.Helper()
	xor, keys := l.Value("prefix_bytes_vs_xor_64"), l.Value("prefix_bytes_vs_keys_64")
	if !(xor > 0 && xor <= 0.5 && keys > xor && keys <= 0.5) {
		t.Errorf("bytes of prompts: %v of xor, %v of keys", xor, keys)
	}
	ours := l.Value("prefix_memory_per_million_blocks")
	single := l.Value("prefix_memory_per_million_blocks_xor")
	if !(ours >= 32e6 && ours <= 64e6 && single >= 2*ours) {
		t.Errorf("a million blocks take %v bytes, %v as single keys", ours, single)
	}
	if plain := l.Value("bytes_vs_plain"); !(plain < 1 && l.Value("bytes_vs_eval") < plain) {
		t.Errorf("bytes: %v of plain, %v of eval", plain, l["bytes_vs_eval"])
	}
}

func TestCollectFails(t *testing.T) {
	s := tiny(4)
	s.version = "none"
	if _, err := collect(context.Background(), s, io.Discard); err == nil {
		t.Error("measured a server that does not exist")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s.version = ""
	if _, err := collect(ctx, s, io.Discard); err == nil {
		t.Error("an interrupted run gave a report")
	}
}

func TestSettingsAreChecked(t *testing.T) {
	if err := tiny(1).check(); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*settings){
		"rounds": func(s *settings) { s.Rounds = 0 },
		"owners": func(s *settings) { s.owners = 0 },
		"depth":  func(s *settings) { s.depth = -1 },
		"held":   func(s *settings) { s.held = 0 },
		"kinds":  func(s *settings) { s.kinds = 0 },
		"calls":  func(s *settings) { s.calls = 0 },
		"room":   func(s *settings) { s.room = 0 },
		"span":   func(s *settings) { s.span = 0 },
		"rate":   func(s *settings) { s.rate = 0 },
		"dead":   func(s *settings) { s.dead = 0 },
		"leases": func(s *settings) { s.leases = 0 },
	} {
		s := tiny(1)
		spoil(&s)
		if s.check() == nil {
			t.Errorf("%s: not refused", name)
		}
	}
}

// madeUp is a report in which Warmgate's reservation takes the given multiple of plain's in every round.
func madeUp(reserve, bytes, path float64) *report {
	c := &cell{endpoints: 64, runs: map[string][]measurement{}}
	for round := range 3 {
		slow := float64(round + 1) // the machine slows down: pairing must cancel it
		for name, factor := range map[string]float64{evalsha: 1, eval: 2, hmget: 0.5} {
			c.runs[name] = append(c.runs[name], measurement{
				reserve: 10 * slow * factor, release: 1 * slow, sent: 900, received: 100, path: 1, after: 1, cpu: 20,
				rate: 1000, share: 0.5,
			})
		}
		c.runs[warmgate] = append(c.runs[warmgate], measurement{
			reserve: 10 * slow * reserve, release: 1 * slow, heartbeat: 30, sent: 900*bytes - 2, received: 100 *
				bytes, heartbeatSent: 150, heartbeatReceived: 50,
			path: path, after: 1, cpu: 10, rate: 2000, share: 0.5,
		})
	}
	oneMessage := madeUpPrompt(3, 0.5)
	oneMessage.about, oneMessage.bytes = "one message of 1024 bytes, 3 blocks", 1024
	return &report{
		settings: settings{
			Settings: bench.Settings{Rounds: 3}, version: "made-up-1.0", owners: 8, depth: 16, held: 2, kinds: 1,
			calls: 512, rate: 100,
		}, cells: []*cell{c}, prompts: []promptCell{
			madeUpPrompt(5, 4), madeUpPrompt(64, 40),
			madeUpPrompt(3, 1), oneMessage,
		},
		budgets: madeUpBudgets(),
		memory:  map[string]float64{warmgate: 45e6, blockXOR: 130e6}, bound: promptBound{
			room: 16e6, blocks: 2e6,
			took: 12e6,
		},
		deaths: []death{
			{scripts: map[string]float64{"heartbeat": 0.5, "candidates": 3}, p99: 4, returned: 100},
			{scripts: map[string]float64{"heartbeat": 0.7, "candidates": 0.25}, p99: 1, returned: 300},
			{scripts: map[string]float64{"heartbeat": 0.6, "candidates": 0.2}, p99: 2, returned: 200},
		},
	}
}

// madeUpBudgets is a cell in which budgets take three times as long.
func madeUpBudgets() *cell {
	c := &cell{runs: map[string][]measurement{}}
	for round := range 3 {
		slow := float64(round + 1)
		c.runs[warmgate] = append(c.runs[warmgate], measurement{reserve: 4 * slow, release: 1})
		c.runs[budgeted] = append(c.runs[budgeted], measurement{reserve: 12 * slow, release: 2})
	}
	return c
}

// madeUpPrompt is a cell in which the published way takes the given multiple of Warmgate's time.
func madeUpPrompt(blocks int, xor float64) promptCell {
	c := &cell{runs: map[string][]measurement{}}
	for round := range 3 {
		slow := float64(round + 1)
		for name, factor := range map[string]float64{warmgate: 1, blockXOR: xor, blockKeys: 2} {
			c.runs[name] = append(c.runs[name],
				measurement{reserve: 10 * slow * factor, sent: 400 * factor, received: 100 * factor})
		}
	}
	return promptCell{fmt.Sprintf("a prompt of %d blocks", blocks), blocks, 0, c}
}

func TestLine(t *testing.T) {
	l := madeUp(1.5, 0.5, 1).line()
	for name, want := range map[string]float64{
		"reserve_vs_plain_64": 1.5, "reserve_vs_eval_64": 0.75, "reserve_vs_hmget_64": 3,
		"request_vs_plain_64": 16.0 / 11,
		"reserve_us_64":       30, "release_us_64": 2, "round_trips": 1, "round_trips_all": 2.01,
		"bytes_vs_plain":     0.5, // a heartbeat's 200 bytes are 2 a request
		"schedule_script_us": 24, "budgets_vs_none": 3, "requests_per_core": 1e5, "requests_per_core_plain": 5e4,
		"prefix_vs_xor_5": 0.25, "prefix_vs_xor_64": 1.0 / 40, "prefix_vs_keys_64": 0.5, "prefix_reserve_us_64": 20,
		"prefix_bytes_vs_xor_64": 1.0 / 40, "prefix_memory_per_million_blocks": 45e6, "prefix_memory_vs_bound": 0.75,
		"script_ms_max":      0.7, // a disturbed call of one round is not the script's
		"script_wait_p99_ms": 2, "returned_ms": 200,
	} {
		if got := l.Value(name); !(math.Abs(got-want) < 1e-9) {
			t.Errorf("%s = %v, want %v", name, got, want)
		}
	}
	spread, scripts := l["reserve_vs_plain_64_spread"].(bench.Spread), l["script_ms"].(bench.Line)
	if spread.Max-spread.Min > 1e-9 || l["reserve_vs_plain_8"] != nil || l["prefix_vs_xor_20"] != nil {
		t.Errorf("%+v", l)
	}
	if scripts["heartbeat"] != 0.6 || scripts["candidates"] != 0.25 || l["schedule_script_target_met"] != true {
		t.Errorf("%+v", l)
	}
	want := map[string]bool{"xor_64": true, "xor_5": false, "bytes": true, "bound": true}
	if got := l["prefix_targets_met"].(map[string]bool); !maps.Equal(got, want) {
		t.Errorf("targets of prompts: %+v", got)
	}
	raw, err := json.Marshal(l)
	if err != nil || !strings.Contains(string(raw), `"round_trips":1,`) || len(l["cells"].([]bench.Line)) !=
		len(contenders) {
		t.Errorf("JSON %s, %v", raw, err)
	}
	for _, c := range []struct {
		name                 string
		reserve, bytes, path float64
		missed               string
	}{
		{"all kept", 2, 0.9, 1, ""},
		{"too slow", 2.1, 0.9, 1, "reserve"},
		{"too many bytes", 1, 1.1, 1, "bytes"},
		{"an extra round trip", 1, 0.9, 1.01, "round_trips"},
	} {
		for name, met := range madeUp(c.reserve, c.bytes, c.path).line()["targets_met"].(map[string]bool) {
			if met != (name != c.missed) {
				t.Errorf("%s: %s is %v", c.name, name, met)
			}
		}
	}
}

func TestReportNamesWhatWasMeasured(t *testing.T) {
	rep := madeUp(1.5, 0.5, 1)
	benchtest.Report(t, rep.configuration(), rep.table(), rep.line(),
		"a prompt of 64 blocks: server µs per reservation; warmgate 20.0 (10.0..30.0) and 500 bytes; xor 800.0",
		"with budgets, 10 targets", "server µs per reservation 24.0 (12.0..36.0), without budgets 8.0 (4.0..12.0), "+
			"over that 3.00 (3.00..3.00); per release 2.0",
		"one message of 1024 bytes, 3 blocks", "warmgate over xor 2.0000 (2.0000..2.0000), over keys 0.50",
		"warmgate over xor 0.0250 (0.0250..0.0250), over keys 0.50", "45 MB of the server's memory for "+
			"a million blocks",
		"when 2.0 million blocks come and 16.0 MB may be used, 12.0 MB of the server's memory are",
		bench.Machine(), "64, warmgate", "1.50 (1.50..1.50)", "30.0 (15.0..45.0)",
		"16 leases an owner: 150 bytes to and 50 from",
		"the longest call of heartbeat 0.60 (0.50..0.70) ms", "requests waited 2.00 (1.00..4.00) ms at the "+
			"99th percentile",
		"median of 2 phases of 256", contenders[2].what,
	)
}
