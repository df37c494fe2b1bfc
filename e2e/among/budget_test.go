package among

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/redisserver"
)

// quota is the rate limit of a model backend: after some requests it refuses for a while, and says so in the headers of
// its answers as an API does.
type quota struct {
	api     string
	mu      sync.Mutex
	left    int           // requests that it still takes
	pause   time.Duration // for which it then takes none
	until   time.Time     // when that is over
	refused int           // requests that it has refused
	early   int           // requests that came although it had said that it takes none
	came    int
}

// The ways of a backend to say that it takes nothing.
const (
	openAI    = "OpenAI"            // 429 with retry-after, and what is left in x-ratelimit-
	anthropic = "Anthropic"         // 429 with retry-after, and what is left in anthropic-ratelimit-
	foretold  = "OpenAI, before it" // the last answer before says that nothing is left
)

var apis = []string{openAI, anthropic, foretold}

// all is how many requests a backend takes in all.
const all = 50

// serve answers a request, unless it returns true: then it is to be served.
func (q *quota) serve(w http.ResponseWriter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	q.came++
	paused, refuses := now.Before(q.until), false
	if paused {
		q.early++
	}
	switch {
	case !paused && !q.until.IsZero():
		q.left = all
	case q.left > 0:
		q.left--
	default:
		refuses = true
	}
	if q.until.IsZero() && q.left == 0 && (refuses || q.api == foretold) {
		q.until = now.Add(q.pause)
	}
	reset := max(0, q.until.Sub(now))
	h := w.Header()
	h.Set("date", now.UTC().Format(http.TimeFormat))
	switch q.api {
	case anthropic:
		h.Set("anthropic-ratelimit-requests-limit", strconv.Itoa(all))
		h.Set("anthropic-ratelimit-requests-remaining", strconv.Itoa(q.left))
		h.Set("anthropic-ratelimit-requests-reset", now.Add(reset).UTC().Format(time.RFC3339))
	default:
		h.Set("x-ratelimit-limit-requests", strconv.Itoa(all))
		h.Set("x-ratelimit-remaining-requests", strconv.Itoa(q.left))
		h.Set("x-ratelimit-reset-requests", reset.String())
	}
	if !refuses {
		return true
	}
	q.refused++
	h.Set("retry-after", strconv.Itoa(int(q.pause/time.Second)))
	w.WriteHeader(http.StatusTooManyRequests)
	return false
}

// over returns when the backend takes requests again, the zero time before it has refused any.
func (q *quota) over() time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.until
}

// budgets returns a configuration with budgets for the sites.
func budgets(a, b, members string) string {
	return `{"lb_type":"cluster","lb_policy":"token_budget","lb_config":{"targets":{"llm-a":{"weight":1` + a +
		`},"llm-b":{"weight":1` + b + `}},"health":{"slow_start":0},` + members + source + `}}`
}

// shared has the configuration count in Redis, under a name of its own.
func shared(config, scope string) string {
	config = strings.Replace(config, `"admin_cluster":"warmgate-admin"`,
		`"admin_cluster":"warmgate-admin","redis_cluster":"warmgate-redis"`, 1)
	return strings.Replace(config, `"debug_headers"`,
		`"reserve_timeout":"10s","redis_scope":"`+scope+`","debug_headers"`, 1)
}

// chooses waits until the gateway sends requests where the plugin says, to both sites.
func (l *lab) chooses() {
	l.t.Helper()
	l.knows(func(a *harness.Answer) bool { return a.Header.Get("x-warmgate-cluster") == a.Header.Get("x-site") })
}

// TestBudgets has a backend refuse for three seconds after a few requests: once it has said so, no worker of any
// gateway sends it a request before its time, and all do afterwards. Then it sends many requests at once to all
// workers: never is one more in flight at a target than its cap. It does so with one gateway, and with two that share a
// Redis.
func TestBudgets(t *testing.T) {
	redis := redisserver.StartT(t, redisserver.Options{})
	for _, version := range versions {
		for _, gateways := range []int{1, 2} {
			o := harness.Options{Version: version, Workers: 2, Config: budgets(
				`,"max_concurrent_requests":5`, `,"max_concurrent_requests":2`, "")}
			if gateways > 1 {
				o.Config, o.Redis = shared(o.Config, version), redis.Addr()
			}
			labs := []*lab{newLab(t, o, nil)}
			for len(labs) < gateways {
				labs = append(labs, newLab(t, o, labs[0]))
			}
			for _, l := range labs {
				l.chooses()
			}
			for _, api := range apis {
				t.Run(fmt.Sprintf("%s, %d gateways, %s", version, gateways, api), func(t *testing.T) {
					refuses(t, labs, api)
				})
			}
			t.Run(fmt.Sprintf("%s, %d gateways, caps", version, gateways), func(t *testing.T) { caps(t, labs) })
		}
	}
}

// TestShippedBudget runs the shipped file as it is: both sites get their shares.
func TestShippedBudget(t *testing.T) {
	for _, version := range versions {
		_, config, _ := strings.Cut(string(harness.ReadT(t, "envoy-config/warmgate-budget.yaml")), "value: |\n")
		l := newLab(t, harness.Options{Version: version, Config: config}, nil)
		harness.Await(t, func() error {
			if a := l.send(); a.Header.Get("x-site") == "llm" {
				return errors.New("the route's own cluster serves")
			}
			return nil
		})
		if to := l.shares(40, 0); to["llm-a"] < 28 || to["llm-b"] < 8 || to["llm"] > 0 {
			t.Errorf("%s: %v, want three quarters and one", version, to)
		}
	}
}

func refuses(t *testing.T, labs []*lab, api string) {
	t.Helper()
	q := &quota{api: api, left: 3, pause: 3 * time.Second}
	a := labs[0].a
	a.set(func(s *server) { s.quota.Store(q) })
	turn := 0
	send := func() *harness.Answer {
		turn++
		return labs[turn%len(labs)].send()
	}
	harness.Await(t, func() error {
		send()
		if q.over().IsZero() {
			return errors.New("the backend takes requests")
		}
		return nil
	})
	other := 0
	for time.Until(q.over()) > 300*time.Millisecond {
		if answer := send(); answer.Status == http.StatusOK && answer.Header.Get("x-site") == "llm-b" {
			other++
		}
		time.Sleep(5 * time.Millisecond)
	}
	harness.Await(t, func() error {
		if answer := send(); answer.Header.Get("x-site") != "llm-a" {
			return fmt.Errorf("it gets no request again: %d from %s", answer.Status, answer.Header.Get("x-site"))
		}
		return nil
	})
	if q.early > 0 || other == 0 {
		t.Errorf("%d of %d requests came too early, %d went elsewhere", q.early, q.came, other)
	}
	if refused := map[string]int{openAI: 1, anthropic: 1}[api]; q.refused != refused {
		t.Errorf("%d requests were refused, want %d", q.refused, refused)
	}
}

// end sends a request on a connection of its own and returns how it ended: where, or why it was refused.
func (l *lab) end() string {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Post(l.URL()+"/v1/completions", "application/json", strings.NewReader(`{"prompt":"x"}`))
	if err != nil {
		return err.Error()
	}
	resp.Body.Close()
	if resp.StatusCode == http.StatusTooManyRequests {
		return resp.Header.Get("x-warmgate-reason")
	}
	return resp.Header.Get("x-site")
}

func caps(t *testing.T, labs []*lab) {
	t.Helper()
	a, b := labs[0].a, labs[0].b
	for _, st := range []*site{a, b} {
		st.set(func(s *server) { s.quota.Store(nil) })
		st.set(func(s *server) { s.pause.Store(int64(300 * time.Millisecond)) })
		st.most.Store(0)
	}
	var running sync.WaitGroup
	var mu sync.Mutex
	counts := map[string]int{}
	for i := range 40 {
		running.Add(1)
		go func() {
			defer running.Done()
			for range 10 {
				end := labs[i%len(labs)].end()
				mu.Lock()
				counts[end]++
				mu.Unlock()
			}
		}()
	}
	running.Wait()
	if most := [2]int64{a.most.Load(), b.most.Load()}; most != [2]int64{5, 2} {
		t.Errorf("at most %d in flight, want the caps, 5 and 2", most)
	}
	if counts["llm-a"] == 0 || counts["llm-b"] == 0 || counts["over_budget"] == 0 || len(counts) != 3 {
		t.Errorf("requests ended as %v", counts)
	}
}
