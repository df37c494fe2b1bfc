package regions

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/harness"
)

const (
	slots   = 8                      // requests that a server runs at once
	takes   = 300 * time.Millisecond // each of them
	answers = 160
)

// serveSlots runs some requests at once, and has others wait.
func (r *shippedRegion) serveSlots(w http.ResponseWriter, q *http.Request) {
	r.running <- struct{}{}
	defer func() { <-r.running }()
	select {
	case <-time.After(takes):
	case <-q.Context().Done():
	}
	fmt.Fprintf(w, `{"usage":{"prompt_tokens":300,"completion_tokens":20}}`)
}

// TestModerateOverload has twice as many users as their region has slots, all with one short system prompt, while
// another region is idle, by the shipped configuration: that serves a good part of them. The prompt, which is cached at
// home, is no reason to wait for longer than it takes to compute.
func TestModerateOverload(t *testing.T) {
	us, eu := newShipped(t, harness.DefaultVersion, "us", 1), newShipped(t, harness.DefaultVersion, "eu", 1)
	us.peer, eu.peer, us.engines, eu.engines = eu, us, true, true
	us.running, eu.running = make(chan struct{}, slots), make(chan struct{}, slots)
	us.run()
	eu.run()
	us.sees(eu)
	system := strings.Repeat("You answer in one short and polite sentence. ", 25)
	began, todo, served := time.Now(), make(chan int), sync.Map{}
	var users sync.WaitGroup
	for range 2 * slots {
		users.Add(1)
		go func() {
			defer users.Done()
			for n := range todo {
				body := fmt.Sprintf(`{"prompt":"%s Question %d?"}`, system, n)
				served.Store(n, harness.Send(t, nil, http.MethodPost, us.URL()+path, body))
			}
		}()
	}
	for n := range answers {
		todo <- n
	}
	close(todo)
	users.Wait()
	away := 0
	for n, a := range served.Range {
		a := a.(*harness.Answer)
		if a.Status != http.StatusOK {
			t.Errorf("request %d: %+v", n, a)
		}
		if a.Header.Get("x-server") == "eu" {
			away++
		}
	}
	t.Logf("%d answers in %s, %d of them by the other region", answers, time.Since(began), away)
	if away < answers/5 {
		t.Errorf("%d of %d requests went to the other region, which was idle", away, answers)
	}
	us.DrainedT(t)
	eu.DrainedT(t)
}
