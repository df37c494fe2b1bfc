package shipped

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/harness"
)

// scaledServer is a model server that comes and goes.
type scaledServer struct {
	harness.Endpoint
	t        *testing.T
	mu       sync.Mutex
	healthy  time.Time // when it first answered a health check
	arrivals []time.Time
}

func startScaled(t *testing.T) *scaledServer {
	t.Helper()
	s := &scaledServer{t: t}
	s.Endpoint = harness.ServeT(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		now := time.Now()
		s.mu.Lock()
		defer s.mu.Unlock()
		switch {
		case r.URL.Path == "/metrics":
		case r.URL.Path != "/health":
			s.arrivals = append(s.arrivals, now)
		case s.healthy.IsZero():
			s.healthy = now
		}
	}))
	return s
}

// arrived returns how many requests the server has had.
func (s *scaledServer) arrived() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.arrivals)
}

// as returns the server as it is listed with a health.
func (s *scaledServer) as(health string) harness.Endpoint {
	return harness.Endpoint{Addr: s.Addr, Health: health}
}

// serves waits until the server has had so many more requests.
func (s *scaledServer) serves(more int) {
	s.t.Helper()
	had := s.arrived()
	harness.Await(s.t, func() error {
		if n := s.arrived() - had; n < more {
			return fmt.Errorf("a server has had %d requests, want %d", n, more)
		}
		return nil
	})
}

// inQueue returns what the Prometheus page has while so many requests wait.
func inQueue(n int) *regexp.Regexp {
	return regexp.MustCompile(fmt.Sprintf(`(?m)^warmgate_queue_length\{cluster="llm",class="batch"\} %d$`, n))
}

// drains waits until all clients wait, and checks that the server gets no more while endpoints are looked for.
func (s *scaledServer) drains(g *harness.Gateway) {
	t := s.t
	t.Helper()
	page := func() string { return g.PrometheusT(t) }
	await(t, "the Prometheus page", inQueue(zeroClients), page)
	had, polls := s.arrived(), adminPages(t, g)
	harness.Await(t, func() error {
		if n := adminPages(t, g) - polls; n < 5 {
			return fmt.Errorf("the admin interface was asked %v times", n)
		}
		return nil
	})
	if n := s.arrived() - had; n != 0 || !inQueue(zeroClients).MatchString(page()) {
		t.Errorf("%d requests went to a server that was draining", n)
	}
}

// adminPages returns how many pages of the admin interface were read.
func adminPages(t *testing.T, g *harness.Gateway) float64 {
	t.Helper()
	return g.SumT(t, `^cluster\.warmgate-admin\.upstream_rq_200$`)
}

// zeroClients is how many clients send one request after the other.
const zeroClients = 8

// sendAlways has clients send requests until stop is called, which returns how many there were and what went wrong.
func sendAlways(t *testing.T, g *harness.Gateway) (stop func() (sent int, failed []error)) {
	t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	var errs []error
	n, over := 0, make(chan struct{})
	wg.Add(zeroClients)
	for range zeroClients {
		go func() {
			defer wg.Done()
			// A connection for each request, so that any worker gets it.
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			for {
				select {
				case <-over:
					return
				case <-time.After(5 * time.Millisecond):
				}
				resp, err := client.Post(g.URL()+"/v1/completions", "application/json", strings.NewReader(`{"prompt":"x"}`))
				if err == nil {
					var text []byte
					if text, err = io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
						err = fmt.Errorf("%s: %s", resp.Status, text)
					}
					resp.Body.Close()
				}
				mu.Lock()
				if n++; err != nil {
					errs = append(errs, err)
				}
				mu.Unlock()
			}
		}()
	}
	stop = sync.OnceValues(func() (int, []error) {
		close(over)
		wg.Wait()
		return n, errs
	})
	t.Cleanup(func() { stop() })
	return stop
}

// TestFromZero has the cluster of the shipped files go from one server to none, to three and back to one under traffic:
// no request is lost, none goes to a server once it is known to drain, and all that wait are served when servers come.
func TestFromZero(t *testing.T) {
	text := find[string](t, parse(t, "envoy-config/"+overloadFile), pluginPath+".configuration.value")
	last := startScaled(t)
	g := harness.StartT(t, harness.Options{Config: text, Endpoints: []harness.Endpoint{last.Endpoint}})
	push := func(list ...harness.Endpoint) {
		t.Helper()
		if err := g.PushEndpoints(t.Context(), list); err != nil {
			t.Fatal(err)
		}
	}
	stop := sendAlways(t, g)
	cycles := 10
	if testing.Short() {
		cycles = 1
	}
	var woken []time.Duration
	for range cycles {
		last.serves(20)
		await(t, "the Prometheus page", inQueue(0), func() string { return g.PrometheusT(t) })
		push(last.as("DRAINING"))
		last.drains(g)
		push()
		servers := []*scaledServer{startScaled(t), startScaled(t), startScaled(t)}
		push(servers[0].Endpoint, servers[1].Endpoint, servers[2].Endpoint)
		for _, s := range servers {
			s.serves(10)
		}
		woken = append(woken, wakes(servers)...)
		last = servers[0]
		push(last.Endpoint, servers[1].as("DRAINING"), servers[2].as("DRAINING"))
		others := -1
		await(t, "those that drain get no more", regexp.MustCompile("^true$"), func() string {
			before := others
			others = servers[1].arrived() + servers[2].arrived()
			last.serves(50)
			return strconv.FormatBool(others == before)
		})
		push(last.Endpoint)
		last.serves(50)
		if servers[1].arrived()+servers[2].arrived() != others {
			t.Error("requests went to servers that were draining, and gone")
		}
	}
	sent, failed := stop()
	if len(failed) > 0 {
		t.Errorf("lost %d of %d requests: %v", len(failed), sent, failed[0])
	}
	slices.Sort(woken)
	t.Logf("sent %d, lost %d, wake_ms_p50 %d, wake_ms_p99 %d of %d that waited", sent, len(failed),
		woken[len(woken)/2].Milliseconds(), woken[(len(woken)-1)*99/100].Milliseconds(), len(woken))
	g.DrainedT(t)
}

// wakes returns how long after the first server was healthy each of the requests that waited has reached one.
func wakes(servers []*scaledServer) (list []time.Duration) {
	var healthy, arrivals []time.Time
	for _, s := range servers {
		s.mu.Lock()
		healthy, arrivals = append(healthy, s.healthy), append(arrivals, s.arrivals...)
		s.mu.Unlock()
	}
	slices.SortFunc(arrivals, time.Time.Compare)
	first := slices.MinFunc(healthy, time.Time.Compare)
	for _, at := range arrivals[:zeroClients] {
		list = append(list, at.Sub(first))
	}
	return list
}
