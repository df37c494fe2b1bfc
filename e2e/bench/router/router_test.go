package router

import (
	"strings"
	"testing"
)

func TestRoutersStayOnThisMachine(t *testing.T) {
	r := VLLM()
	args := r.arguments("1", "2", []string{"http://127.0.0.1:3", "http://127.0.0.1:4"})
	for _, pair := range []string{
		"--host 127.0.0.1", "--prometheus-host 127.0.0.1", "--policy cache_aware",
		"--worker-urls http://127.0.0.1:3 http://127.0.0.1:4",
	} {
		if !strings.Contains(strings.Join(args, " "), pair) {
			t.Errorf("%q lacks %q", args, pair)
		}
	}
	if text := r.Describe(); !strings.Contains(text, "with its defaults") {
		t.Error(text)
	}
	r.Tuned = []string{"--balance-abs-threshold", "8"}
	args = r.arguments("1", "2", []string{"http://127.0.0.1:3"})
	if text := strings.Join(args, " "); !strings.HasSuffix(text,
		" --balance-abs-threshold 8 --worker-urls http://127.0.0.1:3") {
		t.Errorf("tuned: %q", text)
	}
	if text := r.Describe(); !strings.Contains(text, "with --balance-abs-threshold 8, else its defaults:") {
		t.Error(text)
	}
	if pin := r.pin(); pin != "vllm-router==0.1.17" {
		t.Errorf("pinned as %q", pin)
	}
}
