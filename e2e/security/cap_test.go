package security

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/harness"
)

// capped counts tokens and lets an endpoint have four requests at the same time.
const capped = `{"lb_type":"endpoint","lb_policy":"global_least_request","lb_config":{"unit":"tokens","max_inflight":4,
	"envoy":{"admin_cluster":"warmgate-admin","poll_interval":"100ms"},"health":{"slow_start":0}}}`

// TestCapHoldsForEveryBody sends many requests at once whose bodies cannot be read: no more of them are in flight than
// the cap says.
func TestCapHoldsForEveryBody(t *testing.T) {
	const requests, most = 50, 4
	arrived, leave := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/health" {
			arrived <- struct{}{}
			<-leave
		}
	}))
	defer server.Close()
	endpoints := []harness.Endpoint{{Addr: server.Listener.Addr().String()}}
	g := harness.StartT(t, harness.Options{Endpoints: endpoints, Config: capped})
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
	decided := func(reason string) float64 {
		n, err := g.Sum(t.Context(), `^wasmcustom\.warmgate_decisions_total;.*reason=`+reason+`$`)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		before := decided("chosen")
		for i := range clients {
			resp, err := clients[i].Post(g.URL()+"/health", "application/json", strings.NewReader(chat))
			if err != nil {
				t.Fatal(err)
			}
			drain(t, resp)
		}
		if decided("chosen")-before == float64(len(clients)) {
			return
		}
	}
	t.Fatalf("no round of %d requests was balanced; %v had no endpoints", len(clients), decided("no_endpoints"))
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
	got, err := 0.0, error(nil)
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if got, err = g.Sum(t.Context(), `^wasmcustom\.warmgate_inflight_requests`); err == nil && got == want {
			return
		}
	}
	t.Fatalf("%v requests in flight, want %v; %v", got, want, err)
}
