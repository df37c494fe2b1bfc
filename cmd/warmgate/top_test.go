package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/warmgate/warmgate/internal/live"
	"github.com/warmgate/warmgate/internal/snapshot"
)

// gatewayOf serves the pages of a gateway that serves ten requests between two looks.
func gatewayOf(t *testing.T) string {
	t.Helper()
	var looks atomic.Int64
	answers := map[string]string{
		"/server_info": `{"version": "1/1.40.0", "state": "LIVE", "uptime_current_epoch": "9s"}`,
		"/clusters": `{"cluster_statuses": [{"name": "llm", "host_statuses": [{"address": {"socket_address":
			{"address": "10.0.0.1", "port_value": 8000}}, "stats": [{"name": "rq_total", "value": "%d0"}]}]}]}`,
		"/stats": `{"stats": [
			{"name": "wasmcustom.cluster=.=llm;.;endpoint=.=10.0.0.1:8000;.;warmgate_inflight_requests", "value": 7}]}`,
		"/config_dump": `{"configs": []}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := answers[r.URL.Path]
		if strings.Contains(text, "%d") {
			text = fmt.Sprintf(text, looks.Add(1))
		}
		fmt.Fprint(w, text)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestSnapshot prints a snapshot, and exits with 1 if something cannot be read.
func TestSnapshot(t *testing.T) {
	status, out, errs := play("", "snapshot", "--gateway", "eu="+gatewayOf(t))
	var s snapshot.Snapshot
	if err := json.Unmarshal([]byte(out), &s); err != nil || status != 0 || errs != "" || s.Gateways[0].Name != "eu" ||
		s.Gateways[0].Statistics[0].Value != 7 || s.Program != thisBuild().Version {
		t.Errorf("%d %v %s\n%s", status, err, errs, out)
	}
	status, out, errs = play("", "snapshot", gatewayOf(t), "--redis", "unix:/nowhere.sock")
	if status != statusFound || errs != "" || !strings.Contains(out, "no such file") {
		t.Errorf("%d %s\n%s", status, errs, out)
	}
	status, out, _ = play("", "snapshot", "http://127.0.0.1:1")
	if status != statusFound || !strings.Contains(out, "refused") {
		t.Errorf("%d\n%s", status, out)
	}
	status, _, errs = play("", "snapshot")
	if status != statusFault || !strings.Contains(errs, "no gateway is named") {
		t.Errorf("%d %s", status, errs)
	}
}

// TestTop prints one frame, with rates of the time between two looks.
func TestTop(t *testing.T) {
	status, out, errs := play("", "top", "--once", "-o", "json", "--interval", "200ms", gatewayOf(t))
	var f live.Frame
	if err := json.Unmarshal([]byte(out), &f); err != nil || status != 0 || errs != "" {
		t.Fatalf("%d %v %s\n%s", status, err, errs, out)
	}
	if c := f.Gateways[0].Clusters[0]; c.PerS <= 0 || c.Endpoints[0].Requests != 7 {
		t.Errorf("%+v", c)
	}
	t.Setenv("LC_ALL", "C")
	status, out, errs = play("", "top", "--once", "--interval", "200ms", gatewayOf(t), "http://127.0.0.1:1")
	if status != statusFound || errs != "" || !strings.Contains(out, "\n10.0.0.1:8000 ") ||
		!strings.Contains(out, "127.0.0.1:1: cannot be read") {
		t.Errorf("%d %s\n%s", status, errs, out)
	}
	for args, want := range map[string]string{
		"http://127.0.0.1:1":                        "no terminal",
		"http://127.0.0.1:1 -o json":                "-o is for --once",
		"http://127.0.0.1:1 --once --interval 10ms": "--interval is below 200ms",
		"--once": "no gateway is named",
	} {
		status, out, errs := play("", append([]string{"top"}, strings.Fields(args)...)...)
		if status != statusFault || out != "" || !strings.Contains(errs, want) {
			t.Errorf("%s: %d %s%s", args, status, out, errs)
		}
	}
}

// TestPrintJSON escapes what a terminal might obey, and nothing else.
func TestPrintJSON(t *testing.T) {
	var out bytes.Buffer
	const text = "<a>&模型\x1b\u009b\u202e\U000e0001\t"
	if err := printJSON(&out, []string{text}); err != nil {
		t.Fatal(err)
	}
	want := "[\n  \"<a>&模型\\u001b\\u009b\\u202e\\udb40\\udc01\\t\"\n]\n"
	var read []string
	if err := json.Unmarshal(out.Bytes(), &read); err != nil || out.String() != want || read[0] != text {
		t.Errorf("%v %q", err, out.String())
	}
}
