package security

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/warmgate/warmgate/e2e/harness"
)

// heldServer answers streams with as many tokens as they are limited to, and holds those that ask for it after their
// first part.
type heldServer struct {
	release chan struct{}

	mu   sync.Mutex
	held int
}

func (s *heldServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct {
		MaxTokens int  `json:"max_tokens"`
		Hold      bool `json:"x_hold"`
	}
	if r.Method == http.MethodPost && json.NewDecoder(r.Body).Decode(&body) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.Header().Set("content-type", "text/event-stream")
	fmt.Fprint(w, "data: {}\n\n")
	if body.Hold {
		s.mu.Lock()
		s.held++
		s.mu.Unlock()
		_ = http.NewResponseController(w).Flush()
		<-s.release
	}
	const end = "data: {\"usage\":{\"prompt_tokens\":200,\"completion_tokens\":%d}}\n\ndata: [DONE]\n\n"
	fmt.Fprintf(w, end, body.MaxTokens)
}

func (s *heldServer) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held
}

// sendLimited sends a request with a limit on its answer, and reads that, or has the server hold it.
func sendLimited(t *testing.T, g *harness.Gateway, dice *rand.Rand, i, limit int, hold bool) {
	body := fmt.Sprintf(`{"model":"m","stream":true,"max_tokens":%d,"x_hold":%t,"messages":[{"role":"user",`+
		`"content":"%s"}]}`, limit, hold, freshPrompt(dice))
	resp := harness.OpenT(t, &clients[i%len(clients)], http.MethodPost, g.URL()+"/v1/chat/completions", body)
	if !hold {
		drain(t, resp)
		return
	}
	t.Cleanup(func() { resp.Body.Close() })
	line, err := bufio.NewReader(resp.Body).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "data") {
		t.Fatalf("the first part is %q, %v", line, err)
	}
}

// TestClaimsMoveFew is `make bench-attacks ARGS="-attacks 1b"` in small, by counts alone: two requests claim a million
// tokens, among others whose answers reach their limits of 6 to 23 tokens. The servers of the claims still get their
// part of what comes, up to a few requests for each claim.
func TestClaimsMoveFew(t *testing.T) {
	for policy, lb := range map[string]string{
		"global_least_request": `"lb_policy":"global_least_request","lb_config":{"unit":"tokens",`,
		"prefix_cache":         `"lb_policy":"prefix_cache","lb_config":{`,
	} {
		t.Run(policy, func(t *testing.T) {
			const endpoints, claims, few, honest = 8, 2, 6, 200
			servers, release := make([]*heldServer, endpoints), make(chan struct{})
			var list []harness.Endpoint
			for i := range servers {
				servers[i] = &heldServer{release: release}
				list = append(list, harness.ServeT(t, servers[i]))
			}
			defer close(release)
			g := harness.StartT(t, harness.Options{Endpoints: list, Config: `{"lb_type":"endpoint",` + lb +
				`"envoy":{"admin_cluster":"warmgate-admin","poll_interval":"100ms"},"health":{"slow_start":0}}}`})
			awaitChosen(t, g)
			dice := rand.New(rand.NewPCG(probeSeed, 1))
			send := func(i, limit int, hold bool) { sendLimited(t, g, dice, i, limit, hold) }
			limitOf := func(i int) int { return 6 + i%18 }
			for i := range 25 * len(clients) {
				send(i, limitOf(i), false)
			}
			for i := range claims {
				send(i, 1_000_000, true)
			}
			claimed := map[int]int{}
			for i, s := range servers {
				claimed[i] = s.count()
			}
			for i := range honest {
				send(i, limitOf(i), true)
			}
			moved := 0
			var went []int
			for i, s := range servers {
				went = append(went, s.count()-claimed[i])
				if claimed[i] > 0 {
					moved += honest/endpoints - went[i]
				}
			}
			t.Logf("%v at the servers, claims %v", went, claimed)
			if moved > few*claims {
				t.Errorf("%d claims keep %d of %d requests away, want %d at most", claims, moved, honest, few*claims)
			}
		})
	}
}
