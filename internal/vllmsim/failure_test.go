package vllmsim_test

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/warmgate/warmgate/internal/enginesim"
	"github.com/warmgate/warmgate/internal/vllmsim"
)

// change sets some of a server's tuning.
func change(t *testing.T, s *vllmsim.Server, f func(u *vllmsim.Tuning)) {
	t.Helper()
	u := s.Tuning()
	f(&u)
	setTuning(t, s, u)
}

// setMode changes the mode alone.
func setMode(t *testing.T, s *vllmsim.Server, m vllmsim.Mode) {
	t.Helper()
	if err := s.SetMode(m); err != nil {
		t.Fatal(err)
	}
}

func TestModeError(t *testing.T) {
	s := start(t, vllmsim.Config{})
	change(t, s, func(u *vllmsim.Tuning) { u.Mode, u.ErrorStatus = vllmsim.ModeError, 502 })
	for _, path := range []string{chatPath, "/v1/models"} {
		if got := must(t, http.MethodPost, s.URL()+path, chat("x", 1, "")); got.status != 502 {
			t.Errorf("%s: status %d, want 502", path, got.status)
		}
	}
	if got := must(t, http.MethodGet, s.URL()+"/health", ""); got.status != 200 {
		t.Errorf("/health: status %d, want 200", got.status)
	}
	setMode(t, s, vllmsim.ModeOK)
	complete(t, s, chatPath, chat("x", 1, ""))
	if st := s.State(); st.Statuses[502] != 2 || st.Statuses[200] != 1 {
		t.Errorf("statuses %v", st.Statuses)
	}
}

func TestModeSick(t *testing.T) {
	s := start(t, vllmsim.Config{})
	if got := must(t, http.MethodGet, s.URL()+"/health", ""); got.status != 200 {
		t.Errorf("healthy: status %d", got.status)
	}
	setMode(t, s, vllmsim.ModeSick)
	if got := must(t, http.MethodGet, s.URL()+"/health", ""); got.status != 503 {
		t.Errorf("sick: status %d, want 503", got.status)
	}
	complete(t, s, chatPath, chat("x", 1, ""))
}

// TestModeHang checks that requests stay in flight, exactly as many as were sent, until their
// clients leave.
func TestModeHang(t *testing.T) {
	s := start(t, vllmsim.Config{Tuning: vllmsim.NoLatency()})
	setMode(t, s, vllmsim.ModeHang)
	ctx, cancel := context.WithCancel(t.Context())
	const n = 5
	var done []<-chan error
	for range n {
		done = append(done, background(ctx, s.URL()+chatPath, chat("x", 1, "")))
	}
	eventually(t, s, "all in flight", func(st vllmsim.State) bool { return st.Inflight == n })
	cancel()
	for _, d := range done {
		if err := <-d; !errors.Is(err, context.Canceled) {
			t.Errorf("a request that hangs ended with %v", err)
		}
	}
	eventually(t, s, "none in flight", func(st vllmsim.State) bool {
		return st.Inflight == 0 && st.Statuses[499] == n
	})
	if st := s.State(); st.MaxInflight != n {
		t.Errorf("at most %d in flight, want %d", st.MaxInflight, n)
	}
}

func TestModeReset(t *testing.T) {
	for _, c := range []struct {
		name  string
		cfg   vllmsim.Config
		extra string
		words int
	}{
		{"stream", vllmsim.Config{}, `,"stream":true`, 3},
		{"whole", vllmsim.Config{}, "", 0},
		{"instant stream", vllmsim.Config{Instant: true}, `,"stream":true`, 3},
		{"instant whole", vllmsim.Config{Instant: true}, "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := start(t, c.cfg)
			change(t, s, func(u *vllmsim.Tuning) { u.Mode, u.ResetAfterTokens = vllmsim.ModeReset, 3 })
			got, err := send(t.Context(), http.MethodPost, s.URL()+chatPath, chat("x", 9, c.extra))
			if !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("error %v, want a reset", err)
			}
			if n := strings.Count(got.body, `"delta":{"content"`); n != c.words || strings.Contains(got.body, "DONE") {
				t.Errorf("%d words before the reset, want %d: %s", n, c.words, got.body)
			}
			eventually(t, s, "nothing left", func(st vllmsim.State) bool {
				return st.Inflight == 0 && st.Running == 0 && st.Statuses[0] == 1
			})
		})
	}
}

func TestModeSlowChangesRunningAnswers(t *testing.T) {
	s := start(t, vllmsim.Config{})
	tuning := s.Tuning()
	tuning.Mode, tuning.SlowFactor, tuning.DecodeStepMS = vllmsim.ModeSlow, 1e6, 1
	setTuning(t, s, tuning)
	ctx, cancel := context.WithCancel(t.Context())
	done := background(ctx, s.URL()+chatPath, chat("x", 5, ""))
	eventually(t, s, "the first token", func(st vllmsim.State) bool { return st.OutputTokens == 1 && st.Running == 1 })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("an answer of 4000 s ended with %v", err)
	}
}

// TestClientLeaves checks at each stage of a request that leaving frees everything.
func TestClientLeaves(t *testing.T) {
	for _, c := range []struct {
		name   string
		extra  string
		before func(vllmsim.State) bool
	}{
		{"while waiting", "", func(st vllmsim.State) bool { return st.Running == 1 && st.Waiting == 1 }},
		{"while decoding", "", func(st vllmsim.State) bool { return st.OutputTokens > 0 }},
		{"in a stream", `,"stream":true`, func(st vllmsim.State) bool { return st.OutputTokens > 0 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := start(t, vllmsim.Config{Config: enginesim.Config{MaxNumSeqs: 1}, Tuning: endless()})
			ctx, cancel := context.WithCancel(t.Context())
			first := background(ctx, s.URL()+chatPath, chat("first", 500, c.extra))
			second := background(ctx, s.URL()+chatPath, chat("second", 500, c.extra))
			eventually(t, s, "the stage", c.before)
			cancel()
			<-first
			<-second
			eventually(t, s, "all freed", func(st vllmsim.State) bool {
				return st.Running == 0 && st.Waiting == 0 && st.Inflight == 0 && st.KVUsage == 0
			})
		})
	}
}

// TestStreamIsLive checks that tokens leave the server when they exist, not with the end.
func TestStreamIsLive(t *testing.T) {
	s := start(t, vllmsim.Config{Tuning: endless()})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL()+chatPath, strings.NewReader(chat("x", 500, `,"stream":true`)))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	line, err := bufio.NewReader(resp.Body).ReadString('\n')
	if err != nil || !strings.Contains(line, `"role":"assistant"`) {
		t.Errorf("first line %q, %v", line, err)
	}
	if st := s.State(); st.Running != 1 {
		t.Errorf("%d running when the first token is read, want 1", st.Running)
	}
}

func TestBusy(t *testing.T) {
	s := start(t, vllmsim.Config{Config: enginesim.Config{MaxNumSeqs: 1, MaxQueued: 1}, Tuning: endless()})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	background(ctx, s.URL()+chatPath, chat("first", 500, ""))
	background(ctx, s.URL()+chatPath, chat("second", 500, ""))
	eventually(t, s, "full", func(st vllmsim.State) bool { return st.Running+st.Waiting == 2 })
	got := must(t, http.MethodPost, s.URL()+chatPath, chat("third", 1, ""))
	if got.status != 503 || !strings.Contains(got.body, "The engine is currently busy") ||
		got.header.Get("Retry-After") != "" {
		t.Errorf("status %d: %s", got.status, got.body)
	}
	metrics := must(t, http.MethodGet, s.URL()+"/metrics", "").body
	if !strings.Contains(metrics, `vllm:admission_rejections_total{model_name="sim",reason="max_num_queued_reqs"} 1.0`) {
		t.Error("the rejection is not in the metrics")
	}
}

func TestCloseEndsRequests(t *testing.T) {
	s := start(t, vllmsim.Config{Tuning: endless()})
	stream := background(t.Context(), s.URL()+chatPath, chat("x", 500, `,"stream":true`))
	eventually(t, s, "running", func(st vllmsim.State) bool { return st.Running == 1 })
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-stream; err == nil {
		t.Error("a stream cut off by Close looks complete")
	}
	if _, err := send(t.Context(), http.MethodGet, s.URL()+"/health", ""); err == nil {
		t.Error("a closed server still answers")
	}
}

func TestConfigIsStrict(t *testing.T) {
	s := start(t, vllmsim.Config{})
	before := s.Tuning()
	for name, spoil := range map[string]func(u *vllmsim.Tuning){
		"mode":     func(u *vllmsim.Tuning) { u.Mode = "broken" },
		"speed":    func(u *vllmsim.Tuning) { u.Speed = 0 },
		"slowness": func(u *vllmsim.Tuning) { u.SlowFactor = -1 },
		"status":   func(u *vllmsim.Tuning) { u.ErrorStatus = 200 },
		"tokens":   func(u *vllmsim.Tuning) { u.ResetAfterTokens = -1 },
		"time":     func(u *vllmsim.Tuning) { u.DecodeStepMS = -1 },
	} {
		u := before
		if spoil(&u); s.SetTuning(u) == nil {
			t.Errorf("a bad %s was accepted", name)
		}
	}
	if s.Tuning() != before {
		t.Errorf("a refused change left %+v", s.Tuning())
	}
	change(t, s, func(u *vllmsim.Tuning) { u.Speed = 3 })
	want := before
	want.Speed = 3
	if s.Tuning() != want {
		t.Errorf("tuning %+v, want %+v", s.Tuning(), want)
	}
}

// TestReports has a server report an answer that came to its end, one that it broke off, and one whose client left.
func TestReports(t *testing.T) {
	reports := make(chan vllmsim.Report, 1)
	s := start(t, vllmsim.Config{Report: func(_ *http.Request, x vllmsim.Report) { reports <- x }})
	must(t, http.MethodPost, s.URL()+chatPath, chat("x", 7, `,"stream":true`))
	x := <-reports
	if x.Sent != 7 || !x.Whole || x.Prompt == 0 || x.Arrived.After(x.First) || x.First.After(x.Last) {
		t.Errorf("whole: %+v", x)
	}
	_, err := send(context.Background(), http.MethodPost, s.URL()+chatPath,
		chat("x", 7, `,"stream":true,"sim_reset_after":3`))
	if x = <-reports; err == nil || x.Sent != 3 || x.Whole {
		t.Errorf("broken off: %v, %+v", err, x)
	}
	eventually(t, s, "it has left", func(st vllmsim.State) bool { return st.Inflight == 0 })
	setTuning(t, s, endless())
	ctx, leave := context.WithCancel(context.Background())
	left := make(chan error, 1)
	go func() {
		_, err := send(ctx, http.MethodPost, s.URL()+chatPath, chat("x", 300, `,"stream":true`))
		left <- err
	}()
	for s.State().Inflight == 0 {
		time.Sleep(time.Millisecond)
	}
	leave()
	if x = <-reports; <-left == nil || x.Whole || x.Sent > 299 {
		t.Errorf("its client left: %+v", x)
	}
}
