package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/harness"
)

func TestCalibrate(t *testing.T) {
	page := harness.PathT(t, "metrics/testdata/vllm-0.32.0.prom")
	status, flags, errs := play("", "calibrate", page)
	if status != 0 || !strings.Contains(errs, "guessed") || !strings.Contains(flags, "--cache 524288") {
		t.Fatalf("status %d, %s%s", status, flags, errs)
	}
	simulated(t, strings.Fields(flags)...) // the flags are those of simulate

	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	status, out, errs := play(string(text), "calibrate", "-o", "json", "-")
	var r struct {
		Step  float64 `json:"step_ms"`
		Error *float64
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil || status != 0 || r.Step <= 0 || r.Error == nil {
		t.Errorf("status %d, %s%s: %v", status, out, errs, err)
	}
}

func TestCalibrateRefuses(t *testing.T) {
	for _, c := range []struct{ stdin, flags, want string }{
		{"", "missing.prom", "missing.prom"},
		{"sglang:token_usage 1\n", "-", "no page"},
		{"vllm:generation_tokens_total 0\n", "-", "served"},
		{"", "-o xml -", "xml"},
		{"", "", "1 arg"},
	} {
		status, out, errs := play(c.stdin, append([]string{"calibrate"}, strings.Fields(c.flags)...)...)
		if status != statusFault || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%q: status %d, %s%s", c.flags, status, out, errs)
		}
	}
}

// Access logs are put together. What is printed are flags of simulate.
func TestCalibrateByALog(t *testing.T) {
	file := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(file, []byte(accessLog(30)), 0o600); err != nil {
		t.Fatal(err)
	}
	status, flags, errs := play(accessLog(30), "calibrate", file, "-")
	if status != 0 || !strings.Contains(errs, "Of 60 answers") || !strings.Contains(errs, "guessed") {
		t.Fatalf("status %d, %s%s", status, flags, errs)
	}
	simulated(t, strings.Fields(flags)...)
	for want, args := range map[string][]string{
		"fewer than 50": {file},
		"not both":      {file, harness.PathT(t, "metrics/testdata/vllm-0.32.0.prom")},
	} {
		if status, out, errs := play("", append([]string{"calibrate"}, args...)...); status != statusFault ||
			out != "" || !strings.Contains(errs, want) {
			t.Errorf("%q: status %d, %s%s", args, status, out, errs)
		}
	}
}
