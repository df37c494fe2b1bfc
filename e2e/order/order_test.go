package order

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/queuecheck"
	"github.com/warmgate/warmgate/e2e/redisserver"
)

// arrive lets n requests come, each step after the one before, and returns when all have been answered or have left.
// leave returns when a client leaves, 0 for never.
func (s *stage) arrive(n int, step time.Duration, leave func() time.Duration) {
	var group sync.WaitGroup
	ticker := time.NewTicker(step)
	defer ticker.Stop()
	for range n {
		<-ticker.C
		ctx, cancel := context.WithCancel(context.Background())
		if d := leave(); d > 0 {
			ctx, cancel = context.WithTimeout(context.Background(), d)
		}
		group.Add(1)
		go func() {
			defer group.Done()
			defer cancel()
			s.send(ctx, "default")
		}()
	}
	group.Wait()
}

// wantServed checks that every request was served whose client has not left. It returns how many of those clients left
// before their requests came to a server, and how many of these so late that the requests were in the queue for sure.
func (s *stage) wantServed() (left, late int) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, q := range s.requests {
		switch {
		case q.status < 0 && q.arrived == 0:
			left++
			if q.left-q.sent > s.slack() {
				late++
			}
		case q.status > 0 && q.status != http.StatusOK:
			s.t.Errorf("request %d: %d", id, q.status)
		}
	}
	return left, late
}

// TestOneGateway has a gateway of four workers.
func TestOneGateway(t *testing.T) { orders(t, start(t, 1, 4, nil)) }

// TestTwoGateways has two gateways of two workers that count in Redis.
func TestTwoGateways(t *testing.T) {
	if testing.Short() {
		t.Skip("starts two gateways and a Redis; -short leaves that out")
	}
	l := start(t, 2, 2, redisserver.StartT(t, redisserver.Options{}))
	orders(t, l)
	t.Run("a gateway stands still", func(t *testing.T) { gatewayStandsStill(t, l) })
	t.Run("a gateway is killed", func(t *testing.T) { gatewayKilled(t, l) })
}

func orders(t *testing.T, l *layout) {
	t.Run("first come first served", func(t *testing.T) { firstComeFirstServed(t, l) })
	t.Run("clients leave", func(t *testing.T) { clientsLeave(t, l) })
	t.Run("weights", func(t *testing.T) { weights(t, l) })
}

// firstComeFirstServed: requests come at several workers in turn, faster than they are served, and are served in
// the order in which they came.
func firstComeFirstServed(t *testing.T, l *layout) {
	s := open(t, l, 40*time.Millisecond, `"aging":"0s"`)
	n, rules := 500, queuecheck.Rules{}
	if l.redis != nil { // a worker that a busy machine lets stand still for ten polls is passed meanwhile
		n, rules.Slack = 900, time.Second
	}
	s.arrive(n, 6*time.Millisecond, func() time.Duration { return 0 })
	if left, _ := s.wantServed(); left > 0 || s.over > 0 {
		t.Errorf("clients have left, or %d requests arrived at a server that had %d", s.over, s.most)
	}
	s.check(rules)
	s.logHandovers()
}

// clientsLeave: a part of the clients leave while they wait, or are served. Their places go to others, and none is
// kept.
func clientsLeave(t *testing.T, l *layout) {
	s := open(t, l, 40*time.Millisecond, `"aging":"0s"`)
	rng := rand.New(rand.NewPCG(1, 2))
	s.arrive(500, 4*time.Millisecond, func() time.Duration {
		if rng.IntN(2) == 0 {
			return 0
		}
		return time.Duration(1+rng.IntN(1000)) * time.Millisecond
	})
	s.check(queuecheck.Rules{})
	left, late := s.wantServed()
	if late < 50 {
		t.Errorf("only %d clients left while they waited", late)
	}
	// A client may leave just when its request was granted.
	if n := int(s.leftQueue() - s.before); n < late-5 || n > left {
		t.Errorf("%d requests were counted as left; of %d clients that left, %d did so in the queue for sure", n, left,
			late)
	}
}

// weights: two classes of many clients each share what is served by their weights.
func weights(t *testing.T, l *layout) {
	clients, requests := 60, 1200
	rules := queuecheck.Rules{Weights: map[string]float64{"interactive": 8, "batch": 1}}
	if l.redis != nil { // as in firstComeFirstServed, and with more clients, so that waits are longer than the slack
		clients, requests, rules.Slack = 150, 1800, time.Second
	}
	s := open(t, l, 10*time.Millisecond,
		`"aging":"0s","class_header":"x-class","classes":{"interactive":{"weight":8},"batch":{"weight":1}}`)
	var group sync.WaitGroup
	for _, class := range []string{"interactive", "batch"} {
		for range clients {
			group.Add(1)
			go func() {
				defer group.Done()
				for s.sent() < requests {
					s.send(context.Background(), class)
				}
			}()
		}
	}
	group.Wait()
	s.wantServed()
	s.check(rules)
	rules.Share, rules.MinGrants = 0.05, requests/2
	for _, v := range queuecheck.Check(s.history(), rules) {
		if v.Rule == queuecheck.RuleShare {
			t.Error(v)
		}
	}
}

// sent returns how many requests were sent.
func (s *stage) sent() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.requests)
}
