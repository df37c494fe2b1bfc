package page

import (
	"bufio"
	"fmt"
	"maps"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/internal/vllmsim"
)

const secret = "a token of the test's own"

// site is a gateway of two workers before simulated servers, and how many requests each of these has had and holds.
type site struct {
	gateway *harness.Gateway
	hold    chan struct{} // until it is closed, requests with x-hold are held

	mu           sync.Mutex
	served, held map[string]int
}

func newSite(t *testing.T) *site {
	s := &site{hold: make(chan struct{}), served: map[string]int{}, held: map[string]int{}}
	o := harness.Options{Config: `{"lb_policy":"prefix_cache","lb_config":{"max_inflight":4,"queue":{"max_wait":"20s"},` +
		`"health":{"slow_start":0},"metrics":{"interval":"200ms"},"envoy":{"admin_cluster":"warmgate-admin",` +
		`"metrics_cluster":"warmgate-metrics","poll_interval":"100ms"},` +
		`"inspect":{"path":"/warmgate/inspect","token":"` + secret + `"}}}`}
	for i := range 3 {
		var addr string
		sim := vllmsim.New(vllmsim.Config{Index: i, Instant: true})
		endpoint := harness.ServeT(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.meet(addr, r)
			sim.ServeHTTP(w, r)
		}))
		addr = endpoint.Addr
		o.Endpoints = append(o.Endpoints, endpoint)
	}
	s.gateway = harness.StartT(t, o)
	return s
}

// meet counts a request, and holds it if that is asked for.
func (s *site) meet(addr string, r *http.Request) {
	holds := r.Header.Get("x-hold") != ""
	if r.Method == http.MethodPost {
		s.mu.Lock()
		s.served[addr]++
		if holds {
			s.held[addr]++
		}
		s.mu.Unlock()
	}
	if holds {
		<-s.hold
	}
}

// say sends a turn of one of four conversations with a model.
func (s *site) say(t *testing.T, model string, number int, headers ...string) {
	body := fmt.Sprintf(`{"model":"%s","messages":[{"role":"user","content":"%d %s"}]}`, model, number%4,
		strings.Repeat("A sentence that all have. ", 60))
	headers = append(headers, "content-type: application/json")
	answer := harness.Send(t, nil, http.MethodPost, s.gateway.URL()+"/v1/chat/completions", body, headers...)
	if answer.Status != http.StatusOK {
		t.Errorf("status %d", answer.Status)
	}
}

// warmgateUI runs warmgate ui for the gateway, and returns the address that it prints.
func (s *site) warmgateUI(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	program := harness.ProgramT(t, dir)
	command := exec.CommandContext(t.Context(), program, "ui", "--listen", "127.0.0.1:0", "--token-file", token,
		"--inspect", s.gateway.URL(), filepath.Join(s.gateway.Dir(), "admin.sock"))
	command.Stderr = harness.LogWriter(t)
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait() // it was killed
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// lanes returns the requests in flight at each endpoint that has some, as the page has them.
func lanes(t *testing.T, b browser) map[string]int {
	t.Helper()
	shown := map[string]int{}
	for _, g := range eval[[]gatewayShown](t, b, readPage) {
		for _, c := range g.Clusters {
			for _, lane := range c.Lanes {
				text, _, _ := strings.Cut(lane[2], " / ")
				n, err := strconv.Atoi(text)
				if err != nil {
					t.Fatalf("lane %q: %v", lane, err)
				}
				if n > 0 {
					shown[lane[0]] = n
				}
			}
		}
	}
	return shown
}

// TestGateway compares the page of a real gateway with what the gateway's statistics and the servers behind it know.
func TestGateway(t *testing.T) {
	t.Parallel() // it waits most of the time
	chromium(t)  // before a gateway is started in vain
	s := newSite(t)
	b := open(t)
	b.do(t, chromedp.Navigate(s.warmgateUI(t)))
	for i := range 12 {
		s.say(t, "m", i)
	}
	b.until(t, `document.querySelectorAll("tr.lane").length === 3`)
	const holds = 5
	var all sync.WaitGroup
	for i := range holds {
		all.Add(1)
		go func() {
			defer all.Done()
			s.say(t, "m", i, "x-hold: yes")
		}()
	}
	release := sync.OnceFunc(func() { close(s.hold) })
	t.Cleanup(release)
	harness.Await(t, func() error {
		shown := lanes(t, b)
		s.mu.Lock()
		defer s.mu.Unlock()
		if n := sum(shown); n != holds || fmt.Sprint(shown) != fmt.Sprint(s.held) {
			return fmt.Errorf("shown is %v, held are %v", shown, s.held)
		}
		return nil
	})
	decided := s.gateway.DecidedT(t, "chosen")
	if decided != 12+holds {
		t.Errorf("%g requests were placed", decided)
	}
	b.until(t, fmt.Sprintf(`[...document.querySelectorAll(".reasons tbody tr")].some((row) =>
	  row.children[1].textContent === "chosen" && row.children[3].textContent === "%g")`, decided))
	release()
	all.Wait()
	s.gateway.DrainedT(t)
	harness.Await(t, func() error {
		if shown := lanes(t, b); len(shown) > 0 {
			return fmt.Errorf("shown is %v", shown)
		}
		return nil
	})
	s.checkDecision(t, b)
}

// checkDecision sends one more request, and compares what the page says of its decision.
func (s *site) checkDecision(t *testing.T, b browser) {
	before := s.servedNow()
	s.say(t, "the-last", 0)
	b.until(t, `(() => {
	  document.querySelector(".choices button")?.click();
	  return document.querySelector(".detail").textContent.includes("the-last");
	})()`)
	var server string
	for addr, n := range s.servedNow() {
		if n != before[addr] {
			server = addr
		}
	}
	rows := eval[[][]string](t, b, `[...document.querySelectorAll(".costs tbody tr")].map((row) =>
	  [...row.children].map((cell) => cell.textContent))`)
	if len(rows) != 3 {
		t.Fatalf("candidates are %q", rows)
	}
	// The cheapest was chosen; of several that cost the same, it is any.
	chosen := slices.IndexFunc(rows, func(row []string) bool { return row[0] == server+" (chosen)" })
	if chosen < 0 || rows[chosen][5] != rows[0][5] {
		t.Errorf("%s has served, candidates are %q", server, rows)
	}
	cheapest := math.Inf(-1)
	for _, row := range rows {
		var terms [5]float64 // base, load, over, credit, cost
		for i := range terms {
			v, err := strconv.ParseFloat(strings.ReplaceAll(row[1+i], ",", ""), 64)
			if err != nil {
				t.Fatalf("candidate %q: %v", row, err)
			}
			terms[i] = v
		}
		if total := terms[0] + terms[1] + terms[2] - terms[3]; math.Abs(total-terms[4]) > 0.003 { // as they are rounded
			t.Errorf("the terms of %q are %g together", row, total)
		}
		if terms[4] < cheapest {
			t.Errorf("candidates are not in the order of their cost: %q", rows)
		}
		cheapest = terms[4]
	}
}

// servedNow returns how many requests each server has had.
func (s *site) servedNow() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.served)
}

func sum(of map[string]int) (n int) {
	for _, v := range of {
		n += v
	}
	return n
}
