package sessions

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/redisserver"
)

const servers = 4

// stage is two gateways of two workers before the same servers.
type stage struct {
	gateways []*harness.Gateway
	client   *http.Client
	hold     chan struct{} // until it is closed, servers answer nothing that is to be held

	mu sync.Mutex
	at map[string]int // requests that are held, by server
}

// config counts in Redis if there is one.
func config(redis bool) string {
	tunnel := ""
	if redis {
		tunnel = `,"redis_cluster":"warmgate-redis"`
	}
	return `{"lb_policy":"consistent_hash","lb_config":{"debug_headers":true,"reserve_timeout":"10s",` +
		`"health":{"slow_start":0},"envoy":{"admin_cluster":"warmgate-admin","poll_interval":"100ms"` + tunnel + `}}}`
}

func start(t *testing.T, redis *redisserver.Server) *stage {
	s := &stage{
		hold: make(chan struct{}), at: map[string]int{},
		// A connection for each request, so that any worker gets it.
		client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
	}
	o := harness.Options{Config: config(redis != nil)}
	if redis != nil {
		o.Redis = redis.Addr()
	}
	for i := range servers {
		o.Endpoints = append(o.Endpoints, harness.ServeT(t, s.server("server "+strconv.Itoa(i))))
	}
	for range 2 {
		g := harness.StartT(t, o)
		s.gateways = append(s.gateways, g)
		harness.Await(t, func() error {
			for range 16 {
				if r := harness.Send(t, nil, http.MethodGet, g.URL()+"/v1/models", "").Reason(); r != "chosen" {
					return fmt.Errorf("the reason is %s", r)
				}
			}
			return nil
		})
	}
	return s
}

// server answers with its name.
func (s *stage) server(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Header.Get("x-hold") != "" {
			s.mu.Lock()
			s.at[name]++
			s.mu.Unlock()
			<-s.hold
		}
		w.Header().Set("x-server", name)
	})
}

// send sends a request of a session to a gateway, and returns which server answered, and where it is by the plugin.
func (s *stage) send(t *testing.T, gateway int, session, hold string) (server, at string) {
	r, err := http.NewRequest(http.MethodGet, s.gateways[gateway].URL()+"/v1/models", nil)
	if err != nil {
		t.Error(err)
		return "", ""
	}
	r.Header.Set("x-session-id", session)
	if hold != "" {
		r.Header.Set("x-hold", hold)
	}
	answer, err := s.client.Do(r)
	if err != nil {
		t.Error(err)
		return "", ""
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("session %s: status %d", session, answer.StatusCode)
	}
	return answer.Header.Get("x-server"), answer.Header.Get("x-warmgate-session-at")
}

// Two gateways that know nothing of each other send a session to the same server, whichever worker has the request.
func TestGatewaysAgree(t *testing.T) {
	s := start(t, nil)
	homes, used := map[int]string{}, map[string]bool{}
	for round := range 6 {
		for session := range 40 {
			server, at := s.send(t, round%2, "session "+strconv.Itoa(session), "")
			if at != "home" {
				continue // the previous request may count still
			}
			if homes[session] == "" {
				homes[session], used[server] = server, true
			}
			if server != homes[session] {
				t.Errorf("session %d is at %s by gateway %d, was at %s", session, server, round%2, homes[session])
			}
		}
	}
	if len(homes) < 40 || len(used) < servers {
		t.Errorf("%d sessions of 40 have a home, at %d servers of %d", len(homes), len(used), servers)
	}
}

// Of requests of one session that come at once through two gateways that count in Redis, no server has more than its
// bound, and all of the others are at the next servers in the session's order.
func TestBoundOverGateways(t *testing.T) {
	s := start(t, redisserver.StartT(t, redisserver.Options{}))
	home, _ := s.send(t, 0, "one", "")
	const requests = 96
	var group sync.WaitGroup
	for i := range requests {
		group.Add(1)
		go func() {
			defer group.Done()
			s.send(t, i%2, "one", "yes")
		}()
	}
	harness.Await(t, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		total := 0
		for _, n := range s.at {
			total += n
		}
		if total < requests {
			return fmt.Errorf("%d of %d requests are at servers", total, requests)
		}
		return nil
	})
	limit := int(math.Ceil(1.25 * requests / servers))
	s.mu.Lock()
	for server, n := range s.at {
		if n > limit {
			t.Errorf("%d requests are at %s, bound %d", n, server, limit)
		}
	}
	if s.at[home] != limit {
		t.Errorf("%d requests are at home, want all that may be: %d. All: %v", s.at[home], limit, s.at)
	}
	t.Logf("bound %d: %v, at home at %s", limit, s.at, home)
	s.mu.Unlock()
	close(s.hold)
	group.Wait()
	for end := time.Now().Add(harness.Patience); ; time.Sleep(20 * time.Millisecond) {
		if server, at := s.send(t, 1, "one", ""); server == home && at == "home" {
			break
		}
		if time.Now().After(end) {
			t.Fatal("after all requests have ended, the session does not come home")
		}
	}
}
