package order

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/http"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/redisclient"
)

// line is requests that wait at two gateways, one after the other at each in turn, while the second one is renewed in
// Redis as if it sent heartbeats: however long it is silent, nobody presumes it dead.
type line struct {
	*stage
	keys redisclient.Keys
	ends func() // the renewals
}

// lineUp has so many requests come, and waits until each gateway has half of what servers take, and most of the others
// wait. No server answers until the gate is opened.
func lineUp(t *testing.T, l *layout, n int) *line {
	l.most = 8
	s := &line{stage: open(t, l, 100*time.Millisecond, `"aging":"0s"`), keys: redisclient.KeysOf("llm")}
	s.gate = make(chan struct{})
	ctx, ends := context.WithCancel(context.Background())
	s.ends = ends
	t.Cleanup(ends)
	go s.renew(ctx)
	send := func(n int) {
		for range n {
			go s.send(context.Background(), "default")
		}
	}
	send(s.most * servers)
	harness.Await(t, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.inFlight["e0"]+s.inFlight["e1"] < s.most*servers {
			return fmt.Errorf("servers have %v", s.inFlight)
		}
		return nil
	})
	send(n - s.most*servers)
	harness.Await(t, func() error {
		v, err := l.redis.Do("GETRANGE", s.keys.Queue, 16, 19)
		if b := v.Bytes(); err == nil && (len(b) < 4 || binary.LittleEndian.Uint32(b) < uint32(n)/2) {
			err = fmt.Errorf("not half of %d requests wait: %x", n, b)
		}
		return err
	})
	return s
}

// renew renews all owners.
func (s *line) renew(ctx context.Context) {
	for ctx.Err() == nil {
		now, _ := s.redis.Do("TIME")
		owners, _ := s.redis.Do("ZRANGE", s.keys.Owners, 0, -1)
		for _, o := range owners.Array() {
			_, _ = s.redis.Do("ZADD", s.keys.Owners, "XX", now.Array()[0].Integer()*1000, o.String())
		}
		select {
		case <-ctx.Done():
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// served returns how many requests of a gateway were served, and how many have no answer yet.
func (s *line) served(gateway int) (served, open int) {
	served, open, _ = s.outcomes(gateway)
	return served, open
}

// outcomes also returns how many have another answer.
func (s *line) outcomes(gateway int) (served, open, failed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, q := range s.requests {
		switch {
		case id%uint64(len(s.gateways)) != uint64(gateway):
		case q.status == http.StatusOK:
			served++
		case q.status == 0:
			open++
		default:
			failed++
		}
	}
	return served, open, failed
}

// await waits until so many requests of the gateway were served, or until all of them were.
func (s *line) await(gateway, enough int) {
	s.t.Helper()
	harness.Await(s.t, func() error {
		if n, open := s.served(gateway); open > 0 && n < enough {
			return fmt.Errorf("gateway %d: %d requests were served, and %d wait", gateway, n, open)
		}
		return nil
	})
}

// signal sends the second gateway a signal.
func (s *line) signal(number syscall.Signal) {
	s.t.Helper()
	if err := syscall.Kill(s.gateways[1].PID(), number); err != nil {
		s.t.Fatal(err)
	}
}

const all = 1 << 30

// gatewayStandsStill: while a gateway stands still, requests of the other one are served. It goes on while some of
// these still wait: then all are served, and no server gets more than it takes.
func gatewayStandsStill(t *testing.T, l *layout) {
	s := lineUp(t, l, 300)
	s.signal(syscall.SIGSTOP)
	defer s.signal(syscall.SIGCONT)
	close(s.gate)
	s.await(0, 3*s.most*servers)
	s.signal(syscall.SIGCONT)
	s.await(0, all)
	s.await(1, all)
	for i := range s.gateways {
		if _, _, failed := s.outcomes(i); failed > 0 || s.over > 0 {
			t.Errorf("%d requests of gateway %d failed; %d arrived at a server that had %d", failed, i, s.over, s.most)
		}
	}
	s.ends()
	for _, g := range s.gateways {
		g.DrainedT(t)
	}
}

// gatewayKilled: all requests of a gateway are served although another one was killed that had some wait before them,
// and before that is presumed dead.
func gatewayKilled(t *testing.T, l *layout) {
	s := lineUp(t, l, 200)
	s.signal(syscall.SIGKILL)
	at := s.now()
	close(s.gate)
	s.await(0, all)
	s.await(1, all)
	_, _, failed := s.outcomes(0)
	if served, _ := s.served(1); failed > 0 || served > 0 {
		t.Errorf("%d requests failed; %d of the gateway that was killed were served", failed, served)
	}
	t.Logf("for %v after that no server got a request", s.gap(at).Round(time.Millisecond))
}

// gap returns the longest time after a moment in which no request came to a server, while some waited.
func (s *line) gap(at time.Duration) (longest time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var arrived []time.Duration
	for _, q := range s.requests {
		if q.arrived > at {
			arrived = append(arrived, q.arrived)
		}
	}
	slices.Sort(arrived)
	for _, a := range arrived {
		longest, at = max(longest, a-at), a
	}
	return longest
}
