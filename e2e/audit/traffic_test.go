package audit

import (
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/internal/vllmsim"
	"github.com/warmgate/warmgate/internal/vllmsim/vllmsimtest"
)

func server(t *testing.T) *vllmsim.Server {
	t.Helper()
	c := ServerConfig()
	c.Tuning.DecodeStepMS = 1
	return vllmsimtest.StartT(t, c)
}

func TestTraffic(t *testing.T) {
	srv := server(t)
	client := loadgen.NewClient(loadgen.Options{URL: srv.URL() + path})
	defer client.Close()
	traffic := NewTraffic(client, 500, 1, Short)
	traffic.Start(t.Context())
	traffic.Start(t.Context()) // does nothing: the sender runs
	for traffic.Tally().OK < 20 {
		time.Sleep(time.Millisecond)
	}
	traffic.Pause()
	tally := traffic.Tally()
	if tally.Failed() != 0 || tally.OK != tally.Sent || tally.ByHost["0"] != tally.Sent || tally.Span <= 0 {
		t.Errorf("after healthy traffic: %+v", tally)
	}
	if n := srv.State(); int(n.Requests) != tally.Sent || n.Inflight != 0 {
		t.Errorf("the server saw %d requests, %d in flight; %d were sent", n.Requests, n.Inflight, tally.Sent)
	}
	traffic.Pause() // does nothing
	if again := traffic.Tally(); again.Sent != tally.Sent {
		t.Errorf("%d requests were sent by paused traffic", again.Sent-tally.Sent)
	}
	if err := srv.SetMode(vllmsim.ModeError); err != nil {
		t.Fatal(err)
	}
	traffic.Start(t.Context())
	for len(traffic.Tally().Errors) == 0 {
		time.Sleep(time.Millisecond)
	}
	traffic.Pause()
	tally = traffic.Tally()
	if n := tally.Errors["status_500"]; n == 0 || tally.Failed() != n || !strings.Contains(tally.First, "status_500") {
		t.Errorf("after failing traffic: %+v", tally)
	}
}

func TestShortIsDeterministic(t *testing.T) {
	a, b := rand.New(rand.NewPCG(1, 2)), rand.New(rand.NewPCG(1, 2))
	pieces := 0
	for i := range 200 {
		q, again := Short(a, i), Short(b, i)
		if string(q.Body) != string(again.Body) || q.Upload != again.Upload || q.Stream != again.Stream {
			t.Fatalf("request %d differs between two runs of one seed", i)
		}
		if q.Upload.Pieces > 1 {
			pieces++
		}
	}
	if pieces == 0 {
		t.Error("no body travels in pieces")
	}
}

func TestReadToEnd(t *testing.T) {
	broken := errors.New("broken")
	for name, tt := range map[string]struct {
		body io.Reader
		good bool
	}{
		"complete":               {strings.NewReader("data: {}\n\ndata: [DONE]\n\n"), true},
		"complete, byte by byte": {iotest.OneByteReader(strings.NewReader("data: {}\n\ndata: [DONE]\n\n")), true},
		"without end mark":       {strings.NewReader("data: {}\n\n"), false},
		"more after end mark":    {strings.NewReader("data: [DONE]\n\ndata: {}\n\n"), false},
		"empty":                  {strings.NewReader(""), false},
		"broken":                 {io.MultiReader(strings.NewReader("data: {}\n\n"), iotest.ErrReader(broken)), false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := readToEnd(tt.body); (err == nil) != tt.good {
				t.Errorf("readToEnd() = %v, want success: %t", err, tt.good)
			}
		})
	}
}

// The counts that a request is expected to have at the plugin follow from its reason.
func TestCounts(t *testing.T) {
	for reason, want := range map[string]bool{
		"chosen": true, "body_late": true, "body_malformed": true, "shadow": true, "disabled": false,
		"no_endpoints": false, "": false,
	} {
		if counts(reason) != want {
			t.Errorf("counts(%q) = %t", reason, !want)
		}
	}
}

func TestTrafficThatIsMeantToFail(t *testing.T) {
	srv := server(t)
	client := loadgen.NewClient(loadgen.Options{URL: srv.URL() + path})
	defer client.Close()
	traffic := NewTraffic(client, 500, 1, Short)
	traffic.Meant, traffic.Most = "status_500", 3
	if err := srv.SetMode(vllmsim.ModeError); err != nil {
		t.Fatal(err)
	}
	traffic.Start(t.Context())
	for traffic.Tally().Meant < 20 {
		time.Sleep(time.Millisecond)
	}
	if err := srv.SetMode(vllmsim.ModeOK); err != nil {
		t.Fatal(err)
	}
	for most := int64(0); traffic.Tally().OK < 20; {
		if most = max(most, srv.State().Inflight); most > 3 {
			t.Fatalf("%d requests under way, want 3 at most", most)
		}
	}
	traffic.Pause()
	if tally := traffic.Tally(); tally.Failed() != 0 || tally.OK+tally.Meant != tally.Sent || tally.First != "" {
		t.Errorf("after failures that were meant: %+v", tally)
	}
}

// A burst is beside the rate, and its requests are among the others.
func TestBurst(t *testing.T) {
	srv := server(t)
	client := loadgen.NewClient(loadgen.Options{URL: srv.URL() + path})
	defer client.Close()
	traffic := NewTraffic(client, 0, 1, Short)
	traffic.Burst(t.Context(), 7)
	traffic.Burst(t.Context(), 5)
	traffic.Pause()
	tally := traffic.Tally()
	if tally.Sent != 12 || tally.OK != 12 || srv.State().Requests != 12 {
		t.Errorf("after two bursts: %+v", tally)
	}
	var sum Tally
	sum.Add(tally)
	sum.Add(Tally{Sent: 3, OK: 1, Waited: 1, Errors: map[string]int{"reset": 2}, First: "first"})
	if sum.Sent != 15 || sum.OK != 13 || sum.Waited != 1 || sum.Failed() != 2 || sum.Errors["reset"] != 2 ||
		sum.ByHost["0"] != 12 || sum.First != "first" {
		t.Errorf("the sum is %+v", sum)
	}
}

// What has waited is known by the plugin's header, which is 0 for what has not.
func TestWaited(t *testing.T) {
	traffic := NewTraffic(nil, 0, 1, Short)
	for _, ms := range []string{"", "0", "12"} {
		s := loadgen.Sample{Header: http.Header{}}
		if ms != "" {
			s.Header.Set(waitHeader, ms)
		}
		traffic.count(s, time.Now())
	}
	if n := traffic.Tally().Waited; n != 1 {
		t.Errorf("%d of 3 have waited, want 1", n)
	}
}

func TestAsk(t *testing.T) {
	connections := map[string]bool{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		connections[r.RemoteAddr] = true
		w.Header().Set("x-warmgate-reason", "chosen")
		w.WriteHeader(http.StatusTeapot)
		_, _ = w.Write([]byte(r.Header.Get("x-own")))
	}))
	defer srv.Close()
	for _, c := range []struct {
		keep bool
		want int // connections
	}{{true, 1}, {false, 3}} {
		clear(connections)
		for range 3 {
			r, err := Ask(t.Context(), srv.URL, c.keep, http.Header{"X-Own": {"text"}})
			if err != nil || r.Body != "text" || r.String() != `status 418, reason "chosen": text` {
				t.Errorf("%v, %v", r, err)
			}
		}
		if len(connections) != c.want {
			t.Errorf("keep %t: %d connections, want %d", c.keep, len(connections), c.want)
		}
	}
}

// An excuse is asked for each failure, and for nothing else.
func TestTrafficWithExcuses(t *testing.T) {
	srv := server(t)
	client := loadgen.NewClient(loadgen.Options{URL: srv.URL() + path})
	defer client.Close()
	traffic := NewTraffic(client, 500, 1, Short)
	traffic.Excuse = func(s *loadgen.Sample, sent time.Time) bool {
		if s.Error != "status_500" || time.Since(sent) < s.Total {
			t.Errorf("asked for %+v, sent %v ago", s, time.Since(sent))
		}
		return s.ID%2 == 0
	}
	traffic.Start(t.Context())
	for traffic.Tally().OK < 20 {
		time.Sleep(time.Millisecond)
	}
	if err := srv.SetMode(vllmsim.ModeError); err != nil {
		t.Fatal(err)
	}
	for traffic.Tally().Excused < 20 || traffic.Tally().Errors["status_500"] < 20 {
		time.Sleep(time.Millisecond)
	}
	traffic.Pause()
	tally := traffic.Tally()
	if n := tally.Errors["status_500"]; tally.Failed() != n || tally.OK+tally.Excused+n != tally.Sent {
		t.Errorf("after failures of which every other is excused: %+v", tally)
	}
}
