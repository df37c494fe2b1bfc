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
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/queuecheck"
	"github.com/warmgate/warmgate/e2e/redisserver"
)

const (
	servers = 2
	idName  = "x-order-id"
	chat    = `{"model":"m","max_tokens":10,"messages":[{"role":"user","content":"hello"}]}`
)

// layout is gateways before servers, which all stages use, one after the other, and where the gateways count: to
// compile the plugin for a gateway takes seconds.
type layout struct {
	gateways []*harness.Gateway
	workers  int                 // of each gateway
	most     int                 // requests in flight at each server
	redis    *redisserver.Server // nil: in each gateway
	stage    atomic.Pointer[stage]
}

// start starts n gateways that count in Redis, if one is given.
func start(t *testing.T, n, workers int, redis *redisserver.Server) *layout {
	l := &layout{workers: workers, most: 2, redis: redis}
	o := harness.Options{Workers: workers, Config: l.config(`"aging":"0s"`)}
	if redis != nil {
		o.Redis = redis.Addr()
	}
	for i := range servers {
		o.Endpoints = append(o.Endpoints, harness.ServeT(t, l.server("e"+strconv.Itoa(i))))
	}
	for range n {
		l.gateways = append(l.gateways, harness.StartT(t, o))
	}
	return l
}

// config returns a configuration with a queue, to which the members are added.
func (l *layout) config(queue string) string {
	envoy := `"envoy":{"admin_cluster":"warmgate-admin","poll_interval":"100ms"}`
	if l.redis != nil {
		envoy = `"envoy":{"admin_cluster":"warmgate-admin","poll_interval":"100ms","redis_cluster":"warmgate-redis"}`
	}
	return `{"lb_type":"endpoint","lb_policy":"global_least_request","lb_config":{"unit":"tokens",` +
		`"reserve_timeout":"10s","push":"outstanding","max_inflight":` + strconv.Itoa(l.most) + `,"debug_headers":true,` +
		envoy + `,"health":{"slow_start":0},` +
		`"queue":{"max_wait":"60s",` + queue + `}}}`
}

// stage is requests to gateways whose servers serve each for some time, and what is known of them.
type stage struct {
	*layout
	t       *testing.T
	service time.Duration
	began   time.Time
	client  *http.Client
	gate    chan struct{} // until it is closed servers answer nothing; nil: there is none
	before  float64       // requests that had left the queue of another stage

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

// open begins a stage with a configuration of its own.
func open(t *testing.T, l *layout, service time.Duration, queue string) *stage {
	s := &stage{
		layout: l, t: t, service: service, began: time.Now(),
		requests: map[uint64]*request{}, inFlight: map[string]int{},
		// A connection for each request, so that any worker gets it.
		client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
	}
	l.stage.Store(s)
	for _, g := range l.gateways {
		if err := g.PushPlugin(t.Context(), l.config(queue)); err != nil {
			t.Fatal(err)
		}
		harness.Await(t, func() error {
			for range 8 * l.workers {
				if r := harness.Send(t, nil, http.MethodGet, g.URL()+"/v1/models", "").Reason(); r != "chosen" {
					return fmt.Errorf("the reason is %s", r)
				}
			}
			return nil
		})
	}
	s.before = s.leftQueue()
	return s
}

func (s *stage) now() time.Duration { return time.Since(s.began) }

// server has the present stage serve requests.
func (l *layout) server(name string) http.Handler {
	return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if id, err := strconv.ParseUint(r.Header.Get(idName), 10, 64); err == nil {
			l.stage.Load().serve(name, id, r)
		}
	})
}

// serve serves a request for a while, unless its client leaves.
func (s *stage) serve(name string, id uint64, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	s.mu.Lock()
	q := s.requests[id]
	q.endpoint, q.arrived = name, s.now()
	if s.inFlight[name]++; s.inFlight[name] > s.most {
		s.over++
	}
	s.mu.Unlock()
	if s.gate != nil {
		<-s.gate
	}
	select {
	case <-time.After(s.service):
	case <-r.Context().Done():
	}
	s.mu.Lock()
	s.inFlight[name]--
	q.served = s.now()
	s.mu.Unlock()
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
		h = append(h, queuecheck.Event{Kind: queuecheck.Capped, Endpoint: e, Cap: s.most})
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
			if q.waited > q.arrived-q.sent+s.slack() {
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
	rules.Slack, rules.Idle = max(rules.Slack, s.slack()), idle
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

// leftQueue returns how many requests the gateways have counted as left.
func (s *stage) leftQueue() (n float64) {
	for _, g := range s.gateways {
		n += g.DecidedT(s.t, "left_queue")
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
