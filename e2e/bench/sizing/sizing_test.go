package sizing

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/benchtest"
	"github.com/warmgate/warmgate/e2e/loadgen"
)

// body returns the body of request i.
func body(t *testing.T, c *conversations, i int) []byte {
	t.Helper()
	parts := c.request(i)
	req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(bytes.Join(parts, nil))))
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(req.Body)
	if err != nil || req.URL.Path != path || int64(len(out)) != req.ContentLength {
		t.Fatalf("%s: %d of %d bytes, %v", req.URL, len(out), req.ContentLength, err)
	}
	return out
}

// TestConversations checks that bodies are chats of the size, that those of one conversation have all but the last
// part in common, and that no two are equal.
func TestConversations(t *testing.T) {
	for _, size := range []int{minBody, 559, 2279, 7310, 47_300, 430_000} {
		c := newConversations(3, size)
		bodies := map[string]bool{}
		for i := range 9 {
			b := body(t, c, i)
			bodies[string(b)] = true
			var chat struct {
				Messages []struct{ Role, Content string }
			}
			if err := json.Unmarshal(b, &chat); err != nil || len(b) != size {
				t.Fatalf("%d bytes: %d, %v", size, len(b), err)
			}
			text := 0
			for _, m := range chat.Messages {
				text += len(m.Content)
			}
			if last := chat.Messages[len(chat.Messages)-1]; last.Role != "user" || text < size*2/5 {
				t.Errorf("%d bytes: the last message is of %s, and all have %d bytes of text", size, last.Role, text)
			}
			again := body(t, c, i+3)
			if common := commonPrefix(b, again); common < size-c.last-len(tailEnd) {
				t.Errorf("%d bytes: two requests of a conversation have %d bytes in common", size, common)
			}
			if other := body(t, c, i+1); commonPrefix(b, other) > 200 {
				t.Errorf("%d bytes: two conversations begin alike", size)
			}
		}
		if len(bodies) != 9 {
			t.Errorf("%d bytes: %d different bodies of 9", size, len(bodies))
		}
	}
}

func commonPrefix(a, b []byte) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// TestKnown checks what part of a prompt can be found in the index: all of one message, of a long conversation what
// fits into the blocks of a chain, of a short one nearly all.
func TestKnown(t *testing.T) {
	for _, tc := range []struct {
		size int
		con  contender
		want float64
	}{
		{430_000, all[1], 0}, {430_000, all[2], 0}, {430_000, all[3], 0.5}, {430_000, all[4], 0.5}, {7310, all[3], 0.9},
	} {
		got, err := known(newConversations(1, tc.size).body(0), tc.con)
		if err != nil || got < tc.want-0.1 || got > tc.want+0.1 {
			t.Errorf("%s, %d bytes: %v, %v, want about %v", tc.con.name, tc.size, got, err, tc.want)
		}
	}
	long, err := loadgen.ChatBody("m", strings.Repeat("word ", 80_000), 1, false)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := known(long, all[4]); err != nil || got < 0.95 {
		t.Errorf("one message: %v, %v", got, err)
	}
	if got, err := known(long, all[3]); err != nil || got < 0.6 || got > 0.67 {
		t.Errorf("one message of which 256 KiB are read: %v, %v", got, err)
	}
	if _, err := known([]byte("{"), all[3]); err == nil {
		t.Error("half a body was accepted")
	}
}

func TestCells(t *testing.T) {
	got, err := parseCells("98.7x100000, 37x130")
	if err != nil || !slices.Equal(got, []cell{{98.7, 100_000}, {37, 130}}) {
		t.Fatalf("%v, %v", got, err)
	}
	if got[0].String() != "98.7x100000" || got[0].name() != "98.7/s of 100000 tokens" {
		t.Errorf("%s, %s", got[0], got[0].name())
	}
	for _, bad := range []string{"", "1", "x", "0x1", "1x0", "1x1x1", "-1x5", "NaNx5", "1x5,"} {
		if _, err := parseCells(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
	s := defaults()
	s.Rounds = 1
	if s.size(got[0]) != 430_000 || s.requests(got[0]) != 394 {
		t.Errorf("%d requests of %d bytes", s.requests(got[0]), s.size(got[0]))
	}
	if long, short := s.of(got[0]), s.of(got[1]); len(long) != len(all) || len(short) != len(all)-1 {
		t.Errorf("%d and %d contenders", len(long), len(short))
	}
	if looked := s.looked(got[0], all[3]); looked < 0.6 || looked > 0.62 || s.looked(got[0], all[4]) != 1 {
		t.Errorf("prefix looks at %v", looked)
	}
	s.cells = got
	if err := s.check(); err != nil {
		t.Error(err)
	}
	s.tokenBytes = 1
	if s.check() == nil {
		t.Error("a body of 130 bytes was accepted")
	}
}

// madeUp is a report in which a contender takes a core more than the one before.
func madeUp() *report {
	s := defaults()
	s.Rounds = 3
	res := &result{settings: s, cell: cell{100, 100_000}}
	res.names = bench.Names(all, func(c contender) string { return c.name })
	for i := range all {
		res.known = append(res.known, 0.5)
		var runs []run
		for round := range s.Rounds {
			runs = append(runs, run{cores: float64(i + 1 + round), rate: 100, p50: float64(i), machine: 0.5})
		}
		res.runs = append(res.runs, runs)
	}
	for i := range res.runs {
		for round := range s.Rounds {
			res.runs[i][round].base = &res.runs[0][round]
		}
	}
	return &report{settings: s, cells: []*result{res}}
}

func TestReport(t *testing.T) {
	rep := madeUp()
	l := rep.line()
	text := benchtest.Report(t, rep.configuration(), rep.table(), l, "prefix reads 61 %",
		"redis can find the first 50 %", "100/s of 100000 tokens, redis", `"max_inspect_bytes":8388608`)
	f := l["cells"].([]bench.Line)[0]["plugins"].(map[string]bench.Line)[whole]
	if f["cores"].(bench.Spread).Median != 6 || f["us_per_request"] != 60_000.0 || f["us_added"] != 40_000.0 ||
		f["p50_added_ms"] != 4.0 || f["body_read"] != 1.0 || f["prompt_known"] != 0.5 {
		t.Errorf("%+v", f)
	}
	if strings.Contains(text, "NOT the gateway") {
		t.Error("nothing was the limit, and the report says so")
	}
	for round := range rep.cells[0].runs[1] {
		rep.cells[0].runs[1][round].late = 6
	}
	if names := rep.cells[0].limited(); !slices.Equal(names, []string{requests}) {
		t.Errorf("limited: %v", names)
	}
}

// TestMeasure plays a small cell with the gateways of all kinds.
func TestMeasure(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Envoys")
	}
	s := defaults()
	s.Rounds, s.span, s.endpoints, s.conversations = 1, 500*time.Millisecond, 4, 2
	s.contenders = []contender{all[0], all[5]}
	up, err := bench.StartUpstream(s.endpoints)
	if err != nil {
		t.Fatal(err)
	}
	defer up.Close()
	res, err := measure(t.Context(), s, cell{rate: 40, tokens: 20_000}, up)
	if err != nil {
		t.Fatal(err)
	}
	r := res.runs[1][0]
	if r.p50 <= 0 || r.p99 < r.p50 || r.rss < r.base.rss || r.rate <= 0 || r.redisMemory <= 0 || r.redisRSS <= 0 {
		t.Errorf("%+v over %+v", r, *r.base)
	}
}
