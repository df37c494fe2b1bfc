package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// accessLog returns an access log with so many requests, one a second, and lines of others between them.
func accessLog(requests int) string {
	var b strings.Builder
	b.WriteString("[2026-11-28 05:59:00.000][1][info][main] starting\n")
	for i := range requests {
		at := time.Date(2026, 11, 28, 6, 0, i, 0, time.UTC).Format(time.RFC3339Nano)
		fmt.Fprintf(&b, `{"start_time":%q,"duration":900,"response_code":200,"warmgate":"host=10.0.0.%d:8000 `+
			`reason=chosen load=1 policy=prefix_cache ttft=80ms prompt_tokens=%d output_tokens=40 cached_tokens=0 `+
			`prompt_bytes=3200 match=0.00"}`+"\n", at, i%2, 800)
	}
	b.WriteString(`{"start_time":"2026-11-28T06:00:00Z","duration":1,"response_code":200,` +
		`"warmgate":"host=- reason=disabled"}` + "\n" + `{"start_time":"2026-11-28T06:0`)
	return b.String()
}

// An access log is replayed from a file, compressed or not, and from the standard input. What is not played is said.
func TestSimulateReplaysAnAccessLog(t *testing.T) {
	text := accessLog(40)
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write([]byte(text)); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	file, zipped := filepath.Join(t.TempDir(), "access.log"), filepath.Join(t.TempDir(), "access")
	for name, content := range map[string][]byte{file: []byte(text), zipped: packed.Bytes()} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first := ""
	for _, name := range []string{file, zipped, "-"} {
		status, out, errs := play(text, "simulate", "--trace", name, "--policy", "prefix_cache", "-o", "csv")
		if first == "" {
			first = out
		}
		if status != 0 || out != first || !strings.Contains(out, "prefix_cache,4,40,0,") {
			t.Errorf("%s: status %d\n%s%s", name, status, out, errs)
		}
		for _, want := range []string{
			": 40 requests in 39s\n", ": 2 lines are not about", ": 1 requests are left out", ": 40 prompts have no",
		} {
			if !strings.Contains(errs, want) {
				t.Errorf("%s: no %q in\n%s", name, want, errs)
			}
		}
	}
	status, out, errs := play(text, "simulate", "--trace", "-", "--policy", "prefix_cache", "--speed", "1e-9")
	if status != statusFault || out != "" || !strings.Contains(errs, "a year") {
		t.Errorf("status %d\n%s%s", status, out, errs)
	}
}

func TestSimulateRefusesLogs(t *testing.T) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	fmt.Fprint(w, strings.Repeat("{}\n", 100))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for stdin, want := range map[string]string{
		"":                               "no line has what",
		"{}\n":                           "no line has what",
		"\x1f\x8b not packed":            "gzip",
		packed.String()[:packed.Len()-9]: "the compressed file is cut off",
		`{"hash_ids":[],"timestamp":-1,"input_length":1,"output_length":1}`:  "line 1",
		`{"start_time":"never","warmgate":"host=- reason=chosen"}`:           "line 1: start_time",
		`{"start_time":"2026-11-28T06:00:00Z","warmgate":"reason=disabled"}`: "no line says how long",
	} {
		status, out, errs := play(stdin, "simulate", "--trace", "-")
		if status != statusFault || out != "" || !strings.Contains(errs, want) {
			t.Errorf("%q: status %d, %s%s", stdin, status, out, errs)
		}
	}
}
