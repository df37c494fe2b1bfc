package lab

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/harness"
)

// Passage is what became of answers that were under way when the plugin's configuration changed.
type Passage struct {
	Answers, Whole int // how many there were, and how many came to their end
	Draining       int // how many old listeners there were at that time
}

// Change has clients receive answers while change switches debug_headers on in the plugin's configuration. The servers
// go on with these answers for some time once the change is in force, and then end them.
func (g *Gateway) Change(t *testing.T, change func(), outlast time.Duration) (p Passage) {
	t.Helper()
	g.AwaitChosen(t)
	const each = 4
	var answers []<-chan bool
	together := harness.H2C() // one connection for all
	for range each {
		alone := &http.Client{Transport: new(http.Transport)}
		answers = append(answers, g.receive(t, alone), g.receive(t, together))
	}
	change()
	harness.Await(t, func() error {
		a := harness.Send(t, nil, http.MethodPost, g.URL+"/v1/chat/completions", shortPrompt, g.with(nil)...)
		if a.Status != http.StatusOK || a.Host() == "" {
			return fmt.Errorf("the new configuration is not in force: answered %d with %q", a.Status, a.Header)
		}
		return nil
	})
	time.Sleep(outlast)
	p.Draining = int(g.Sum(t, `^listener_manager\.total_(listeners|filter_chains)_draining$`))
	counted := int(g.Sum(t, `^wasmcustom\.warmgate_inflight_requests`))
	g.release(t)
	for _, ended := range answers {
		if p.Answers++; <-ended {
			p.Whole++
		}
	}
	if counted != p.Whole {
		t.Errorf("at the end, %d of %d answers were counted as in flight", counted, p.Whole)
	}
	return p
}

// receive has a client receive the beginning of a stream, and read on. What it returns tells at the end whether that
// was the one that the server sent.
func (g *Gateway) receive(t *testing.T, c *http.Client) <-chan bool {
	t.Helper()
	const body = `{"model":"m","stream":true,"messages":[{"role":"user","content":"Hello"}]}`
	headers := g.with([]string{streamed + ": yes"})
	resp := harness.OpenT(t, c, http.MethodPost, g.URL+"/v1/chat/completions", body, headers...)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("a stream was answered %d", resp.StatusCode)
	}
	ended := make(chan bool, 1)
	go func() {
		text, err := io.ReadAll(resp.Body)
		ended <- err == nil && bytes.HasSuffix(text, []byte(lastOne))
	}()
	return ended
}
