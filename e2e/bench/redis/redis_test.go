package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/bench"
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
			line := rep.line()
			if len(line.Cells) != 2*len(contenders) || line.Path != 1 || line.Trips != 2.01 ||
				!line.Targets.RoundTrips {
				t.Errorf("%d cells; %v round trips that a request waits for, %v in all", len(line.Cells),
					line.Path, line.Trips)
			}
			for _, c := range line.Cells {
				if c.ReserveUS <= 0 || c.ReleaseUS <= 0 || c.CPU <= 0 || c.PerCore <= 0 || c.Sent <= 0 ||
					c.Received <= 0 {
					t.Errorf("not measured: %+v", c)
				}
				ours := c.Contender == warmgate
				if (c.HeartbeatUS > 0) != ours || (c.HeartbeatSent > 0) != ours {
					t.Errorf("heartbeats: %+v", c)
				}
			}
			if line.XOR5 <= 0 || line.XOR64 <= 0 || line.Keys5 <= 0 || line.Keys64 <= 0 || line.XOR1 != 0 ||
				line.PromptUS64 <= 0 || line.PromptTargets == nil {
				t.Errorf("prompts: %+v", line.promptResult)
			}
			if len(line.Turns) != 1 || line.Turns[0].Blocks != 3 || line.Turns[0].Endpoints != 8 ||
				line.Turns[0].XOR.Min <= 0 {
				t.Errorf("prompts of one message: %+v", line.Turns)
			}
			if line.ScheduleUS <= 0 || line.BudgetRatio <= 0 || line.ScheduleIsMet == nil {
				t.Errorf("budgets: %+v", line.budgetResult)
			}
			// What goes over the wire, and into memory, does not depend on the machine.
			if line.Bytes64 <= 0 || line.Bytes64 > 0.5 || line.BytesKeys64 <= line.Bytes64 || line.BytesKeys64 > 0.5 {
				t.Errorf("bytes of prompts: %v of xor, %v of keys", line.Bytes64, line.BytesKeys64)
			}
			if line.Memory < 32e6 || line.Memory > 64e6 || line.MemoryXOR < 2*line.Memory {
				t.Errorf("a million blocks take %v bytes, %v as single keys", line.Memory, line.MemoryXOR)
			}
			if ms := line.ScriptMS; line.ScriptMax <= 0 || min(ms["heartbeat"], ms["assert"], ms["candidates"]) <= 0 ||
				line.WaitP99 <= 0 {
				t.Errorf("longest scripts: %+v", line.deathResult)
			}
			if line.Bytes <= 0 || line.Bytes >= 1 || line.BytesEval >= line.Bytes {
				t.Errorf("bytes: %v of plain, %v of eval", line.Bytes, line.BytesEval)
			}
		})
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
		"rounds": func(s *settings) { s.rounds = 0 },
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
	return &report{
		settings: settings{
			version: "made-up-1.0", rounds: 3, owners: 8, depth: 16, held: 2, kinds: 1, calls: 512,
			rate: 100,
		}, cells: []*cell{c}, prompts: []promptCell{
			madeUpPrompt(5, 4), madeUpPrompt(64, 40),
			madeUpPrompt(3, 1),
		},
		budgets: madeUpBudgets(),
		turns:   []turnCell{{1024, 3, madeUpPrompt(3, 0.5).cell}},
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
	return promptCell{blocks, c}
}

func TestLine(t *testing.T) {
	line := madeUp(1.5, 0.5, 1).line()
	near := func(name string, got, want float64) {
		t.Helper()
		if got < want-1e-9 || got > want+1e-9 {
			t.Errorf("%s = %v, want %v", name, got, want)
		}
	}
	near("reserve_vs_plain_64", line.Reserve64, 1.5)
	near("its spread", line.Reserve64Spread.Max-line.Reserve64Spread.Min, 0)
	near("reserve_vs_eval_64", line.ReserveEval, 0.75)
	near("reserve_vs_hmget_64", line.ReserveHMGet, 3)
	near("request_vs_plain_64", line.Request, 16.0/11)
	near("reserve_vs_plain_8", line.Reserve8, 0)
	near("reserve_us_64", line.ReserveUS, 30)
	near("release_us_64", line.ReleaseUS, 2)
	near("bytes_vs_plain", line.Bytes, 0.5) // a heartbeat's 200 bytes are 2 a request
	near("schedule_script_us", line.ScheduleUS, 24)
	near("budgets_vs_none", line.BudgetRatio, 3)
	if line.ScheduleIsMet == nil || !*line.ScheduleIsMet {
		t.Error("24 µs do not meet the target")
	}
	near("prefix_vs_xor_5", line.XOR5, 0.25)
	near("prefix_vs_xor_64", line.XOR64, 1.0/40)
	near("prefix_vs_xor_20", line.XOR20, 0)
	near("prefix_vs_keys_64", line.Keys64, 0.5)
	near("prefix_bytes_vs_xor_64", line.Bytes64, 1.0/40)
	near("prefix_reserve_us_64", line.PromptUS64, 20)
	near("prefix_memory_per_million_blocks", line.Memory, 45e6)
	near("prefix_memory_vs_bound", line.Bound, 0.75)
	near("script_ms_max", line.ScriptMax, 0.7) // a disturbed call of one round is not the script's
	near("script_ms of heartbeat", line.ScriptMS["heartbeat"], 0.6)
	near("script_ms of candidates", line.ScriptMS["candidates"], 0.25)
	near("script_wait_p99_ms", line.WaitP99, 2)
	near("returned_ms", line.Returned, 200)
	if want := (promptTargets{XOR64: true, Bytes: true, Bound: true}); *line.PromptTargets != want {
		t.Errorf("targets of prompts: %+v", *line.PromptTargets)
	}
	near("round_trips_all", line.Trips, 2.01)
	near("requests_per_core", line.PerCore, 1e5)
	near("requests_per_core_plain", line.PerCorePlain, 5e4)
	raw, err := json.Marshal(line)
	if err != nil || !strings.Contains(string(raw), `"round_trips":1,`) || !strings.Contains(string(raw), `"prefix_vs_xor_5":0.25,`) || len(line.Cells) != len(contenders) {
		t.Errorf("JSON %s, %v", raw, err)
	}
	for _, c := range []struct {
		name                 string
		reserve, bytes, path float64
		want                 targetResults
	}{
		{"all kept", 2, 0.9, 1, targetResults{true, true, true}},
		{"too slow", 2.1, 0.9, 1, targetResults{false, true, true}},
		{"too many bytes", 1, 1.1, 1, targetResults{true, false, true}},
		{"an extra round trip", 1, 0.9, 1.01, targetResults{true, true, false}},
	} {
		if got := madeUp(c.reserve, c.bytes, c.path).line().Targets; got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestReportNamesWhatWasMeasured(t *testing.T) {
	rep := madeUp(1.5, 0.5, 1)
	rep.settings.markdown = filepath.Join(t.TempDir(), "redis.md")
	var out strings.Builder
	if err := rep.publish(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"a prompt of 64 blocks: server µs per reservation; warmgate 20.0 (10.0..30.0) and 500 bytes; xor 800.0",
		"with budgets, 10 targets", "server µs per reservation 24.0 (12.0..36.0), without budgets 8.0 (4.0..12.0), " +
			"over that 3.00 (3.00..3.00); per release 2.0",
		"one message of 1024 bytes, 3 blocks", "warmgate over xor 2.00 (2.00..2.00), over keys 0.50 (0.50..0.50)",
		"warmgate over xor 0.0250 (0.0250..0.0250), over keys 0.50", "45 MB of the server's memory for " +
			"a million blocks",
		"when 2.0 million blocks come and 16.0 MB may be used, 12.0 MB of the server's memory are",
		bench.Machine(), "made-up-1.0", "64, warmgate", "1.50 (1.50..1.50)", "30.0 (15.0..45.0)", "8 owners",
		"16 leases an owner: 150 bytes to and 50 from",
		"the longest call of heartbeat 0.60 (0.50..0.70) ms", "requests waited 2.00 (1.00..4.00) ms at the " +
			"99th percentile",
		"median of 2 phases of 256", contenders[2].what,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, out.String())
		}
	}
	text, err := os.ReadFile(rep.settings.markdown)
	if err != nil || !strings.Contains(string(text), "| 64, evalsha | 1.00 (1.00..1.00) |") {
		t.Errorf("Markdown: %v\n%s", err, text)
	}
	if got := rep.cells[0].progress(); !strings.Contains(got, "warmgate 30.0 + 2.0") {
		t.Error(got)
	}
}
