package order

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/queuecheck"
	"github.com/warmgate/warmgate/e2e/redisserver"
)

const (
	servers = 2
	most    = 2 // requests in flight at each server
	idName  = "x-order-id"
	chat    = `{"model":"m","max_tokens":10,"messages":[{"role":"user","content":"hello"}]}`
)

// layout is how many gateways there are, of how many workers each, and where they count.
type layout struct {
	gateways, workers int
	redis             *redisserver.Server // nil: in each gateway
}

// config returns a configuration with a queue, to which the members are added.
func (l *layout) config(queue string) string {
	envoy := `"envoy":{"admin_cluster":"warmgate-admin","poll_interval":"100ms"}`
	if l.redis != nil {
		envoy = `"envoy":{"admin_cluster":"warmgate-admin","poll_interval":"100ms","redis_cluster":"warmgate-redis"}`
	}
	return `{"lb_type":"endpoint","lb_policy":"global_least_request","lb_config":{"unit":"tokens",` +
		`"reserve_timeout":"10s","push":"outstanding","max_inflight":` + strconv.Itoa(most) + `,"debug_headers":true,` +
		envoy + `,"health":{"slow_start":0},` +
		`"queue":{"max_wait":"60s",` + queue + `}}}`
}

// stage is gateways before servers that serve each request for some time, and what is known of requests.
type stage struct {
	layout   layout
	gateways []*harness.Gateway
	t        *testing.T
	service  time.Duration
	began    time.Time
	client   *http.Client

	mu       sync.Mutex
	requests map[uint64]*request
	inFlight map[string]int
	over     int // arrivals at a server that still had as many as it takes
	next     uint64
}

// request is what clients and servers have seen of a request. Times are since the start of the stage, 0 for never.
type request struct {
	class    string
	sent     time.Duration
	endpoint string // at which it arrived
	arrived  time.Duration
	served   time.Duration
	left     time.Duration
	waited   time.Duration // as the gateway says
	status   int
}

// open starts gateways before their servers.
func open(t *testing.T, l layout, service time.Duration, queue string) *stage {
	s := &stage{
		layout: l, t: t, service: service, began: time.Now(),
		requests: map[uint64]*request{}, inFlight: map[string]int{},
		// A connection for each request, so that any worker gets it.
		client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
	}
	o := harness.Options{Workers: l.workers, Config: l.config(queue)}
	if l.redis != nil {
		o.Redis = l.redis.Addr()
	}
	for i := range servers {
		o.Endpoints = append(o.Endpoints, harness.ServeT(t, s.server("e"+strconv.Itoa(i))))
	}
	for range l.gateways {
		g := harness.StartT(t, o)
		s.gateways = append(s.gateways, g)
		harness.Await(t, func() error {
			for range 8 * l.workers {
				if r := harness.Send(t, nil, http.MethodGet, g.URL()+"/v1/models", "").Reason(); r != "chosen" {
					return fmt.Errorf("the reason is %s", r)
				}
			}
			return nil
		})
	}
	return s
}

func (s *stage) now() time.Duration { return time.Since(s.began) }

// server serves a request for a while, unless its client leaves.
func (s *stage) server(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, err := strconv.ParseUint(r.Header.Get(idName), 10, 64)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		s.mu.Lock()
		q := s.requests[id]
		q.endpoint, q.arrived = name, s.now()
		if s.inFlight[name]++; s.inFlight[name] > most {
			s.over++
		}
		s.mu.Unlock()
		select {
		case <-time.After(s.service):
		case <-r.Context().Done():
		}
		s.mu.Lock()
		s.inFlight[name]--
		q.served = s.now()
		s.mu.Unlock()
	})
}

// send sends a request and waits for its answer, or until ctx ends.
func (s *stage) send(ctx context.Context, class string) {
	s.mu.Lock()
	s.next++
	id, q := s.next, &request{class: class, sent: s.now()}
	s.requests[id] = q
	s.mu.Unlock()
	url := s.gateways[id%uint64(len(s.gateways))].URL() + "/v1/chat/completions"
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(chat))
	if err != nil {
		panic(err)
	}
	r.Header.Set(idName, strconv.FormatUint(id, 10))
	r.Header.Set("x-class", class)
	r.Header.Set("content-type", "application/json")
	status, waited := -1, 0
	if resp, err := s.client.Do(r); err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		status = resp.StatusCode
		waited, _ = strconv.Atoi(resp.Header.Get("x-warmgate-wait-ms"))
	}
	s.mu.Lock()
	q.waited = time.Duration(waited) * time.Millisecond
	if q.status = status; status < 0 {
		q.left = s.now()
	}
	s.mu.Unlock()
}

// entered returns the time at which the request had come to the gateway at the latest. A client does not know how long
// it took to get there, nor a server when it was granted.
func (q *request) entered() time.Duration {
	if q.waited == 0 {
		return q.sent
	}
	return max(q.sent, q.arrived-q.waited)
}

// history returns what has happened. A request that its client has left may have been granted a server just before.
func (s *stage) history() (h queuecheck.History) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var endpoints []string
	for i := range servers {
		e := "e" + strconv.Itoa(i)
		endpoints = append(endpoints, e)
		h = append(h, queuecheck.Event{Kind: queuecheck.Capped, Endpoint: e, Cap: most})
	}
	for id, q := range s.requests {
		add := func(kind queuecheck.Kind, at time.Duration, change queuecheck.Event) {
			change.Kind, change.At, change.ID = kind, at, id
			h = append(h, change)
		}
		add(queuecheck.Entered, q.entered(), queuecheck.Event{
			Earliest: q.sent,
			Request:  queuecheck.Request{Class: q.class, Endpoints: endpoints, MaxWait: time.Minute},
		})
		switch {
		case q.arrived > 0:
			if q.waited > q.arrived-q.sent+s.layout.slack() {
				s.t.Errorf("request %d waited for %v of the %v until it was served", id, q.waited, q.arrived-q.sent)
			}
			add(queuecheck.Granted, q.arrived, queuecheck.Event{Earliest: q.sent + q.waited, Endpoint: q.endpoint})
			if q.served > 0 {
				add(queuecheck.Released, q.served, queuecheck.Event{})
			}
		case q.left > 0:
			add(queuecheck.Left, q.left, queuecheck.Event{})
		case q.status > 0:
			add(queuecheck.Refused, q.sent, queuecheck.Event{Code: strconv.Itoa(q.status)})
		}
	}
	return h
}

// slack is by how much the times may be wrong: a request is in the queue some time after it came to its gateway, and in
// Redis after a round trip. Tests share a machine.
func (l *layout) slack() time.Duration {
	if l.redis != nil {
		return 400 * time.Millisecond
	}
	return 150 * time.Millisecond
}

// idle is for how long an endpoint may be open beside requests that wait, on a machine that may be busy.
const idle = 2 * time.Second

// check judges the history, and that it is one in which a false order would have been found.
func (s *stage) check(rules queuecheck.Rules) {
	s.t.Helper()
	h := s.history()
	rules.Slack, rules.Idle = s.layout.slack(), idle
	found := queuecheck.Check(h, rules)
	for _, v := range found[:min(len(found), 5)] {
		s.t.Error(v)
	}
	if len(queuecheck.Check(swapped(h), rules)) == len(found) {
		s.t.Error("the history would pass with two places swapped")
	}
	for _, g := range s.gateways {
		g.DrainedT(s.t)
	}
}

// decided returns how many requests the gateways have counted under the reason.
func (s *stage) decided(reason string) (n float64) {
	for _, g := range s.gateways {
		n += g.DecidedT(s.t, reason)
	}
	return n
}

// swapped returns the history with the grants of two requests swapped: of the one in its first half that waited for
// longest, and of one that came in the middle of that wait.
func swapped(h queuecheck.History) queuecheck.History {
	h = slices.Clone(h)
	entered, granted := map[uint64]queuecheck.Event{}, map[uint64]int{}
	for i, e := range h {
		switch e.Kind {
		case queuecheck.Entered:
			entered[e.ID] = e
		case queuecheck.Granted:
			granted[e.ID] = i
		}
	}
	longest, middle := uint64(0), uint64(0)
	wait := func(id uint64) time.Duration { return h[granted[id]].At - entered[id].At }
	for id := range granted {
		if id > uint64(len(entered)/2) {
			continue // after the last ones nobody came
		}
		if longest == 0 || wait(id) > wait(longest) {
			longest = id
		}
	}
	target, least := entered[longest].At+wait(longest)/2, time.Duration(1<<62)
	for id := range granted {
		off := (entered[id].At - target).Abs()
		if entered[id].Request.Class == entered[longest].Request.Class && off < least {
			middle, least = id, off
		}
	}
	a, b := granted[longest], granted[middle]
	h[a].ID, h[b].ID = middle, longest
	return h
}
