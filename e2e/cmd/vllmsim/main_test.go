package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/vllmsim"
)

func TestRun(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- run(ctx, []string{"-n", "3", "-speeds", "1,2", "-max-num-seqs", "7"}, w) }()
	var addrs []string
	if err := json.NewDecoder(r).Decode(&addrs); err != nil || len(addrs) != 3 {
		t.Fatalf("addresses %v, %v", addrs, err)
	}
	for i, addr := range addrs {
		var st vllmsim.State
		fetch(t, "http://"+addr+"/sim/state", &st)
		var tuning vllmsim.Tuning
		fetch(t, "http://"+addr+"/sim/config", &tuning)
		if want := []float64{1, 2, 2}[i]; st.Index != i || tuning.Speed != want {
			t.Errorf("server %d: index %d, speed %v, want %v", i, st.Index, tuning.Speed, want)
		}
	}
	var fleet vllmsim.FleetState
	fetch(t, "http://"+addrs[2]+"/sim/fleet", &fleet)
	stop()
	if err := <-done; err != nil {
		t.Errorf("run ended with %v", err)
	}
	if _, err := net.Dial("tcp", addrs[0]); err == nil {
		t.Error("a server still listens after the end")
	}
}

func fetch(t *testing.T, url string, v any) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(v); err != nil {
		t.Fatalf("%s: %v", url, err)
	}
}

func TestMistakes(t *testing.T) {
	for _, args := range [][]string{
		{"-n", "0"},
		{"-speeds", "1,x"},
		{"-speeds", "0"},
		{"-listen", "nowhere"},
		{"-listen", "127.0.0.1:http"},
		{"-decode-step-ms", "-1"},
		{"extra"},
	} {
		ctx, stop := context.WithCancel(t.Context())
		stop() // a mistake that is not noticed ends at once
		if err := run(ctx, args, io.Discard); err == nil {
			t.Errorf("%s: no error", strings.Join(args, " "))
		}
	}
}

func TestAddress(t *testing.T) {
	for _, c := range []struct{ listen, second string }{
		{"127.0.0.1:0", "127.0.0.1:0"},
		{"127.0.0.1:9000", "127.0.0.1:9001"},
		{"[::1]:9000", "[::1]:9001"},
	} {
		if got, err := (options{listen: c.listen}).address(1); err != nil || got != c.second {
			t.Errorf("%s: second server at %q, %v; want %q", c.listen, got, err, c.second)
		}
	}
}
