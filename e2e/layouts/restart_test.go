package layouts

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/harness"
)

// hotRestart starts a second process, which takes over from the first, under traffic: every request is answered, and
// the first process answers those that it has begun. With counts in Redis, the second knows of these; with counts in
// its own memory it begins with none. In the end nothing is counted in either.
func hotRestart(t *testing.T, l *lab) {
	const name = "STATIC"
	for _, host := range []string{byRequests, inRedis} {
		l.known(t, name, host, query{})
		l.even(t, name, size, query{host: host})
	}
	stop := sync.OnceFunc(l.traffic(t, name))
	defer stop()
	h2 := l.newH2()
	begun := l.begin(t, name, query{host: inRedis, client: h2})
	alone := l.begin(t, name, query{host: byRequests, client: h2})

	if err := l.g.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	fresh := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: harness.Patience}
	harness.Await(t, func() error { // both workers of the second process
		for range 16 {
			if a := l.must(t, name, query{client: fresh}); a.reason() != "chosen" {
				return fmt.Errorf("%d, reason %q", a.status, a.reason())
			}
		}
		return nil
	})
	// A client whose requests are with the first process goes to the second with the next one, by GOAWAY.
	l.loads(t, name, query{host: inRedis, client: h2}, "2")
	begun.finish(t)
	alone.finish(t)
	stop()
	for _, host := range []string{byRequests, inRedis} {
		l.even(t, name, size, query{host: host})
	}
	l.g.DrainedT(t)
}

// traffic sends requests until stop is called, by clients that each send one after the other. None may fail. Around the
// change, a process may know of no endpoints for a moment: the first has lost its admin interface, and the second gets
// no requests before it has compiled the module.
func (l *lab) traffic(t *testing.T, name string) (stop func()) {
	t.Helper()
	quit := make(chan struct{})
	var clients sync.WaitGroup
	for i := range 4 {
		q := query{client: l.newH2()}
		if i%2 == 0 { // one connection, so that none idles until the first process is gone
			q.client = &http.Client{Transport: new(http.Transport), Timeout: harness.Patience}
		}
		clients.Add(1)
		go func() {
			defer clients.Done()
			for {
				select {
				case <-quit:
					return
				case <-time.After(5 * time.Millisecond):
				}
				a, err := l.send(name, q)
				if err != nil || a.status != http.StatusOK || a.reason() != "chosen" && a.reason() != "no_endpoints" {
					t.Errorf("while Envoy restarts: %v, %+v", err, a)
					return
				}
			}
		}()
	}
	return func() { close(quit); clients.Wait() }
}

// held are requests that wait at their servers, one at each.
type held struct {
	leave   chan struct{}
	answers chan *answer
}

// begin sends a request to each server and returns when they have come.
func (l *lab) begin(t *testing.T, name string, q query) *held {
	t.Helper()
	for {
		h := &held{make(chan struct{}), make(chan *answer, size)}
		arrived := make(chan struct{}, size)
		id, e := l.fleet.begin(func(w http.ResponseWriter, r *http.Request, _, _ int) {
			arrived <- struct{}{}
			select {
			case <-h.leave:
			case <-r.Context().Done():
			}
			_, _ = io.WriteString(w, "hello")
		})
		q.exchange = id
		for range size {
			go func() {
				a, err := l.send(name, q)
				if err != nil {
					a = &answer{body: err.Error()}
				}
				h.answers <- a
			}()
		}
		for range size {
			<-arrived
		}
		if e.spread() == [size]int{1, 1, 1} { // else something before them was still counted
			return h
		}
		h.finish(t)
	}
}

// finish has the servers answer, and expects that the clients get it.
func (h *held) finish(t *testing.T) {
	t.Helper()
	close(h.leave)
	for range size {
		if a := <-h.answers; a.status != http.StatusOK || a.body != "hello" || a.reason() != "chosen" {
			t.Errorf("a request that the first process had begun: %+v", a)
		}
	}
}

// loads waits until requests to all servers, at once, find the load.
func (l *lab) loads(t *testing.T, name string, q query, want string) {
	t.Helper()
	harness.Await(t, func() error {
		answers, _ := l.crowd(t, name, size, q)
		var have []string
		for _, a := range answers {
			have = append(have, a.load())
		}
		if slices.ContainsFunc(have, func(load string) bool { return load != want }) {
			return fmt.Errorf("%s: loads %v, want %s", q.host, have, want)
		}
		return nil
	})
}
