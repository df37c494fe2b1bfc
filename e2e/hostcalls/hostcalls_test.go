package hostcalls

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/higresshost"
)

var update = flag.Bool("update", false, "rewrite the tables")

// The mean of so many requests is taken, after as many that are not counted: some calls are made for one in four or
// in sixteen only.
const requests = 160

// callbacks are those that requests lead to, in the order in which they come. What ticks do depends on no request.
var callbacks = []string{
	"on_context_create", "on_request_headers", "on_request_body", "on_redis_call_response", "on_http_call_response",
	"on_response_headers", "on_response_body", "on_log", "on_done", "on_delete",
}

// TestTables compares the calls of a request with the tables in docs/benchmarks/host-calls.md.
func TestTables(t *testing.T) {
	var lines []string
	for _, c := range []struct {
		title        string
		envoy, redis bool
	}{
		{"Stock Envoy, embedded store", true, false},
		{"Stock Envoy, Redis", true, true},
		{"Higress, embedded store", false, false},
		{"Higress, Redis", false, true},
	} {
		if len(lines) > 0 {
			lines = append(lines, "")
		}
		lines = append(lines, table(t, c.title, c.envoy, c.redis)...)
	}
	compare(t, lines)
}

// table returns the table of a gateway and a store, line by line.
func table(t *testing.T, title string, envoy, redis bool) []string {
	t.Helper()
	header, rule := "| "+title+": callback | host call |", "| --- | --- |"
	var columns []map[higresshost.Call]higresshost.CallStat
	rows := map[higresshost.Call]bool{}
	for _, p := range policies {
		header, rule = header+" "+p.name+" |", rule+" ---: |"
		g := start(t, envoy, redis, p.policy, p.members)
		for range requests {
			g.request()
		}
		g.host.ResetCalls()
		for range requests {
			g.request()
		}
		calls := g.host.Calls()
		columns = append(columns, calls)
		for c := range calls {
			if slices.Contains(callbacks, c.Callback) {
				rows[c] = true
			} else if c.Callback != "on_tick" {
				t.Errorf("%s, %s: the callback %s has no place in the table", title, p.name, c.Callback)
			}
		}
	}
	lines := []string{header, rule}
	for _, c := range sorted(rows) {
		callback, name := "`"+c.Callback+"`", ""
		if c.Name != "" {
			callback, name = "", "`"+c.Name+"`"
		}
		line := "| " + callback + " | " + name + " |"
		for _, calls := range columns {
			line += " " + cell(calls[c]) + " |"
		}
		lines = append(lines, line)
	}
	total := "| in all | |"
	for _, calls := range columns {
		var sum higresshost.CallStat
		for c, stat := range calls {
			if rows[c] && c.Name != "" {
				sum.Calls, sum.Bytes = sum.Calls+stat.Calls, sum.Bytes+stat.Bytes
			}
		}
		total += " " + cell(sum) + " |"
	}
	return append(lines, total)
}

// sorted returns the calls by callback, as they come, and name.
func sorted(rows map[higresshost.Call]bool) []higresshost.Call {
	var list []higresshost.Call
	for c := range rows {
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b higresshost.Call) int {
		at, bt := slices.Index(callbacks, a.Callback), slices.Index(callbacks, b.Callback)
		return cmp.Or(cmp.Compare(at, bt), strings.Compare(a.Name, b.Name))
	})
	return list
}

// cell returns how often a request makes a call, and how many bytes that copies.
func cell(s higresshost.CallStat) string {
	if s.Calls == 0 {
		return "–"
	}
	text := strconv.FormatFloat(float64(s.Calls)/requests, 'f', 2, 64)
	text = strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
	if s.Bytes > 0 {
		text += fmt.Sprintf(" (%.0f B)", float64(s.Bytes)/requests)
	}
	return text
}

// compare compares the lines with those between the marks in docs/benchmarks/host-calls.md, or rewrites them.
func compare(t *testing.T, lines []string) {
	t.Helper()
	root, err := harness.Root()
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- host-calls -->\n", "<!-- /host-calls -->\n"
	path := filepath.Join(root, "docs", "benchmarks", "host-calls.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), begin)
	have, tail, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s: no %s ... %s", path, strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	want := strings.Join(lines, "\n") + "\n"
	if want == have {
		return
	}
	if *update {
		if err := os.WriteFile(path, []byte(head+begin+want+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for i, line := range strings.Split(want, "\n") {
		if old := strings.Split(have, "\n"); i >= len(old) || old[i] != line {
			t.Errorf("now: %s", line)
			if i < len(old) {
				t.Errorf("was: %s", old[i])
			}
		}
	}
	t.Error("if that is meant, rewrite the tables: go test ./e2e/hostcalls -update")
}
