package streamtest

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// stream is a request of a run, and what has to become of it.
type stream struct {
	Stream
	t *run
}

// reply ends the request with a whole answer, with which the client may have any status.
func (s *stream) reply(status int, body string, headers ...[2]string) {
	s.Head(status, headers...)
	if body != "" {
		s.Data(body)
	}
	s.Finish()
	s.Result()
}

// header returns the value of a header that the client got.
func (s *stream) header(name string) string { return s.Result().Headers[name] }

// match returns the share of the prompt that was assumed to be cached.
func (s *stream) match() float64 {
	s.t.Helper()
	text := s.header("x-warmgate-match")
	share, err := strconv.ParseFloat(text, 64)
	if err != nil {
		s.t.Errorf("x-warmgate-match is %q", text)
	}
	return share
}

// wantSent fails the test unless the request has reached an endpoint.
func (s *stream) wantSent() {
	s.t.Helper()
	if s.Upstream() < 0 {
		s.t.Fatalf("the request reached no endpoint: %+v", s.Result())
	}
}

// wantReceived fails the test unless an endpoint gets the whole body.
func (s *stream) wantReceived(body string) {
	s.t.Helper()
	s.wantSent()
	if !s.t.Await(func() bool { return s.Received().Ended }) {
		s.t.Errorf("the endpoint has not got the end of the request")
	}
	if got := s.Received().Body; got != body {
		s.t.Errorf("the endpoint got %d bytes, %.60q, want %d, %.60q", len(got), got, len(body), body)
	}
}

// wantCounted fails the test unless the request is counted where it is, and nothing else is in flight.
func (s *stream) wantCounted() {
	s.t.Helper()
	s.t.wantLoads(s.alone(1)...)
}

// wantTokens is wantCounted for so many tokens.
func (s *stream) wantTokens(n int64) {
	s.t.Helper()
	s.t.wantTokens(s.alone(n)...)
}

// alone returns a load for each endpoint: n where the request is, else 0.
func (s *stream) alone(n int64) []int64 {
	loads := make([]int64, s.t.size)
	loads[s.Upstream()] = n
	return loads
}

// wantReason fails the test unless the client got the reason in the debug headers.
func (s *stream) wantReason(reason string) {
	s.t.Helper()
	if got := s.header("x-warmgate-reason"); got != reason {
		s.t.Errorf("reason %q, want %q", got, reason)
	}
}

// wantSession fails the test unless the client got that in the debug header of its session.
func (s *stream) wantSession(want string) {
	s.t.Helper()
	if got := s.header("x-warmgate-session-at"); got != want {
		s.t.Errorf("x-warmgate-session-at is %q, want %q", got, want)
	}
}

// wakeUp is how long a waiting request takes at most to notice that it was granted an endpoint.
const wakeUp = 50 * time.Millisecond

// wantHeld fails the test unless the request waits.
func (s *stream) wantHeld() {
	s.t.Helper()
	s.t.Advance(wakeUp)
	if !s.Held() {
		s.t.Fatalf("the request does not wait: %+v", s.Result())
	}
}

// wantQueued is wantHeld for a request before which others are to be counted in the queue, or behind it: now so many of
// its class wait. A request that a loaded gateway has only received may be counted behind the next one.
func (s *stream) wantQueued(class string, n int) {
	s.t.Helper()
	s.wantHeld()
	if s.t.Lacks(PickWorker) != "" { // in another process: only the gauge shows that it is in the queue
		s.t.wantGauge(s.t.ofCluster("warmgate_queue_length")+";class="+class, uint64(n))
	}
}

// wantServed fails the test unless the request is served. How soon is checked where time is simulated: on a loaded
// machine a gateway may take longer.
func (s *stream) wantServed() {
	s.t.Helper()
	s.t.Advance(wakeUp)
	isLate := !s.t.isReal() && s.Held()
	if isLate || s.Upstream() < 0 {
		s.t.Fatalf("the request is not served, held %v", s.Held())
	}
}

// wantShedFor fails the test unless the plugin has refused the request.
func (s *stream) wantShedFor(code string) {
	s.t.Helper()
	s.t.Advance(wakeUp)
	if at := s.Upstream(); at >= 0 {
		s.t.Errorf("the request went to endpoint %d", at)
		s.Finish()
		return
	}
	r, body := s.Result(), fmt.Sprintf(`"code":%q}}`, code)
	if r.Status != 429 || r.Headers["retry-after"] == "" || !strings.HasSuffix(r.Body, body) {
		s.t.Errorf("answered %d, retry-after %q, %q; want 429 with %s", r.Status, r.Headers["retry-after"], r.Body,
			body)
	}
	s.wantReason(code)
}

// wantRetryAfter fails the test unless the client is told to wait for seconds within the bounds.
func (s *stream) wantRetryAfter(least, most int) {
	s.t.Helper()
	if s.t.isReal() {
		least = max(1, least-60) // so much of the wait may be over
	}
	if n, err := strconv.Atoi(s.header("retry-after")); err != nil || n < least || n > most {
		s.t.Errorf("retry after %q s, want %d to %d", s.header("retry-after"), least, most)
	}
}
