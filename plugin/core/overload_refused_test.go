package core

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
)

// shippedOverload returns the configuration of envoy-config/warmgate-overload.yaml, for the gateway's endpoints.
func shippedOverload(t *testing.T) string {
	t.Helper()
	file, err := os.ReadFile("../../envoy-config/warmgate-overload.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(file), "value: |\n")
	var config struct {
		Type   string         `json:"lb_type"`
		Policy string         `json:"lb_policy"`
		Config map[string]any `json:"lb_config"`
	}
	if err := json.NewDecoder(strings.NewReader(text)).Decode(&config); err != nil {
		t.Fatal(err)
	}
	delete(config.Config, "envoy")
	config.Config["debug_headers"], config.Config["health"] = true, map[string]any{"slow_start": 0}
	out, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// rush is requests whose answers take as long as given, once they are placed.
type rush struct {
	*fakeDriver
	clients []*fakeStream
	placed  map[*fakeStream]time.Duration
	takes   map[*fakeStream]time.Duration
}

func newRush(t *testing.T, endpoints int) *rush {
	r := &rush{
		fakeDriver: startFake(t, 2, endpoints, shippedOverload(t)), placed: map[*fakeStream]time.Duration{},
		takes: map[*fakeStream]time.Duration{},
	}
	r.advance(time.Second)
	return r
}

// come sends so many requests, apart from each other.
func (r *rush) come(n int, prompt string, apart, takes time.Duration) {
	for i := range n {
		c := r.client(i%2, streamtest.Request{Frames: []string{`{"prompt":"` + prompt + `"}`}})
		r.clients, r.takes[c] = append(r.clients, c), takes
		r.pass(apart)
	}
}

// pass lets time pass, and answers end.
func (r *rush) pass(d time.Duration) {
	const step = 10 * time.Millisecond
	for ; d > 0; d -= step {
		r.advance(min(d, step))
		for _, c := range r.clients {
			if at, ok := r.placed[c]; !ok && c.Upstream() >= 0 {
				r.placed[c] = r.now
			} else if ok && !c.Ended && r.now-at >= r.takes[c] {
				c.Finish()
			}
		}
	}
}

// wantAllServed expects that every request was served, none of them late.
func (r *rush) wantAllServed() {
	r.t.Helper()
	refused, last := map[string]int{}, time.Duration(0)
	for _, c := range r.clients {
		if at, ok := r.placed[c]; ok {
			last = max(last, at)
		} else {
			refused[c.Result().Headers["x-warmgate-reason"]]++
		}
	}
	if len(refused) > 0 {
		r.t.Errorf("of %d requests were refused %v; others were placed until %v", len(r.clients), refused, last)
	}
}

// The first answers of many that began together do not show how fast capacity becomes free.
func TestAnswersThatEndTogether(t *testing.T) {
	r := newRush(t, 4)
	r.come(8, "hello", 0, 3000*time.Millisecond)
	r.come(56, "hello", 0, 3200*time.Millisecond)
	r.come(8, "hello", 0, 3000*time.Millisecond)
	r.pass(3050 * time.Millisecond) // eight have ended
	r.come(64, "hello", 0, 3*time.Second)
	r.pass(15 * time.Second)
	r.wantAllServed()
}

// What is granted to those that wait for the endpoint of their prompts, while others are open, does not show how fast
// capacity becomes free.
func TestPatientRequestsShowNoPace(t *testing.T) {
	r := newRush(t, 4)
	document := strings.Repeat("all of this is a long document. ", 2000)
	r.come(1, document, 10*time.Millisecond, time.Hour)
	warm, inFlight := r.clients[0].Upstream(), map[int][]*fakeStream{}
	for i := range 63 {
		r.come(1, strings.Repeat(fmt.Sprintf("%d is another one. ", i), 100), 0, time.Hour)
	}
	for _, c := range r.clients {
		inFlight[c.Upstream()] = append(inFlight[c.Upstream()], c)
	}
	for at, clients := range inFlight {
		if at != warm {
			clients[0].Finish()
		}
	}
	for i := range 12 {
		r.come(1, document, 0, time.Hour)
		r.wantWaiting(r.clients[len(r.clients)-1])
		r.pass(900 * time.Millisecond)
		inFlight[warm][i].Finish()
		r.pass(time.Second)
	}
	for _, c := range r.clients {
		if !c.Ended {
			c.Finish()
		}
	}
	r.come(132, "hello", 0, 1400*time.Millisecond)
	r.pass(10 * time.Second)
	r.wantAllServed()
}

// While it is not known yet how fast requests get through, those that are refused are told to come back the later the
// more wait.
func TestRetryAfterOfACrowd(t *testing.T) {
	told := func(waiting int) time.Duration {
		r := newRush(t, 4)
		r.come(64, "hello", 0, time.Minute) // as many as the endpoints take
		for i := range waiting {
			tenant := [2]string{"x-warmgate-tenant", strconv.Itoa(i % 3)} // each may have half of the queue
			c := r.client(0, streamtest.Request{Headers: [][2]string{tenant}, Frames: []string{`{"prompt":"hello"}`}})
			r.wantWaiting(c)
		}
		retry := [2]string{"x-stainless-retry-count", "1"}
		for range 100 { // some may always come
			c := r.client(0, streamtest.Request{Headers: [][2]string{retry}, Frames: []string{`{"prompt":"hello"}`}})
			if after := c.Result().Headers["retry-after"]; after != "" {
				seconds, _ := strconv.Atoi(after)
				return time.Duration(seconds) * time.Second
			}
		}
		t.Fatalf("with %d that wait, no retry is refused", waiting)
		return 0
	}
	few, some, many := told(20), told(250), told(500)
	if few > 2*time.Second || some < 4*time.Second || many < 2*some-2*time.Second {
		t.Errorf("with 20, 250 and 500 that wait: after %v, %v and %v", few, some, many)
	}
}
