package security

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/harness"
)

// capped counts tokens and lets an endpoint have four requests at the same time.
const capped = `{"lb_type":"endpoint","lb_policy":"global_least_request","lb_config":{"unit":"tokens","max_inflight":4,
	"envoy":{"admin_cluster":"warmgate-admin","poll_interval":"100ms"},"health":{"slow_start":0}}}`

// TestCapHoldsForEveryBody sends many requests at once whose bodies cannot be read: no more of them are in flight than
// the cap allows.
func TestCapHoldsForEveryBody(t *testing.T) {
	const requests, most = 50, 4
	arrived, leave := make(chan struct{}), make(chan struct{})
	endpoint := harness.ServeT(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/health" {
			arrived <- struct{}{}
			<-leave
		}
	}))
	g := harness.StartT(t, harness.Options{Endpoints: []harness.Endpoint{endpoint}, Config: capped})
	awaitChosen(t, g)
	for _, c := range []struct{ name, body, header, value string }{
		{"a good body", chat, "", ""},
		{"compressed", chat, "Content-Encoding", "x"},
		{"multipart", "--x--", "Content-Type", "multipart/form-data; boundary=x"},
		{"a key twice", `{"model":"m","prompt":"p","model":"m"}`, "", ""},
		{"no number", `{"model":"m","prompt":"p","temperature":NaN}`, "", ""},
		{"a byte order mark", "\ufeff" + chat, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			answered := sendAll(t, g, requests, c.body, c.header, c.value)
			inside, statuses := 0, map[int]int{}
			for range requests {
				select {
				case <-arrived:
					inside++
				case status := <-answered:
					statuses[status]++
				}
			}
			if inside != most || statuses[http.StatusTooManyRequests] != requests-most {
				t.Errorf("%d requests reached the endpoint at a time, and answers were %v; want %d, and %d times 429",
					inside, statuses, most, requests-most)
			}
			if !t.Failed() {
				awaitInflight(t, g, most)
			}
			for range inside {
				leave <- struct{}{}
				<-answered
			}
			awaitInflight(t, g, 0)
		})
	}
}

// awaitChosen waits until all workers know the endpoints: what came before was left to native balancing, which knows no
// cap.
func awaitChosen(t *testing.T, g *harness.Gateway) {
	t.Helper()
	harness.Await(t, func() error {
		before := g.DecidedT(t, "chosen")
		for i := range clients {
			harness.Send(t, &clients[i], http.MethodPost, g.URL()+"/health", chat, "content-type: application/json")
		}
		if g.DecidedT(t, "chosen")-before != float64(len(clients)) {
			return fmt.Errorf("a round of %d requests was not balanced; %v had no endpoints", len(clients),
				g.DecidedT(t, "no_endpoints"))
		}
		return nil
	})
}

// sendAll sends n requests at once and returns where the statuses of their answers come, 0 for none.
func sendAll(t *testing.T, g *harness.Gateway, n int, body, header, value string) <-chan int {
	t.Helper()
	answered := make(chan int)
	for i := range n {
		r, err := http.NewRequest("POST", g.URL()+"/v1/chat/completions", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if header != "" {
			r.Header.Set(header, value)
		}
		go func() {
			resp, err := clients[i%len(clients)].Do(r)
			if err != nil {
				answered <- 0
				return
			}
			resp.Body.Close()
			answered <- resp.StatusCode
		}()
	}
	return answered
}

// awaitInflight waits until the gateway shows so many requests in flight.
func awaitInflight(t *testing.T, g *harness.Gateway, want float64) {
	t.Helper()
	harness.Await(t, func() error {
		if got := g.SumT(t, `^wasmcustom\.warmgate_inflight_requests`); got != want {
			return fmt.Errorf("%v requests in flight, want %v", got, want)
		}
		return nil
	})
}
