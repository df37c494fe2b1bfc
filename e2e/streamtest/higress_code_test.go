package streamtest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/streamtest"
)

// New VMs know what the old ones have learned of how fast endpoints are, and so does one with another configuration:
// before and after, most requests keep away from a slow server, though all are idle.
func TestHigressNewCodeKnowsSpeeds(t *testing.T) {
	const config = `{"lb_policy":"prefix_cache","lb_config":{}}`
	h := &higress{t: t}
	if err := h.Configure(config); err != nil {
		t.Fatal(err)
	}
	h.SetEndpoints(make([]streamtest.Endpoint, 2))
	h.Advance(2 * time.Second)
	if n := h.slow(40, 0); n < 8 { // fewer answers do not show that it is slow
		t.Fatalf("%d requests taught how slow a server is", n)
	}
	h.Advance(2 * time.Second)
	if err := h.Configure(`{"lb_policy":"prefix_cache","lb_config":{"max_inflight":50}}`); err != nil {
		t.Fatal(err)
	}
	if n := h.slow(16, 100); n > 2 {
		t.Errorf("with another configuration %d of 16 requests went to a slow server", n)
	}
	code := harness.ModuleT(t, harness.HostHigress)
	code = append(code[:len(code):len(code)], "\x00\x06\x04test\x01"...) // a section without effect: other code
	if err := h.gw.PushCode(code, config); err != nil {
		t.Fatal(err)
	}
	h.Advance(2 * time.Second)
	h.slow(1, 200) // the first request makes a new VM look for what is known
	h.Advance(2 * time.Second)
	if n := h.slow(16, 201); n > 2 {
		t.Errorf("with new code %d of 16 requests went to a slow server", n)
	}
}

// slow plays so many requests, one after the other over all workers, and returns how many the second server had, which
// takes five times as long. Their prompts differ from first on.
func (h *higress) slow(n, first int) (slow int) {
	h.t.Helper()
	const tokens = 10 // so that what was learned is not forgotten by the end
	for i := range n {
		body := fmt.Sprintf(`{"model":"m","prompt":"%d of many"}`, first+i)
		s := h.Open(streamtest.Request{Worker: i % h.Workers(), Frames: []string{body}})
		each := 10 * time.Millisecond
		if s.Upstream() == 1 {
			each *= 5
			slow++
		}
		h.Advance(each * tokens)
		s.Head(200, [2]string{"content-type", "application/json"})
		s.Data(fmt.Sprintf(`{"choices":[{"text":"a","finish_reason":"stop"}],`+
			`"usage":{"prompt_tokens":99,"completion_tokens":%d}}`, tokens))
		s.Finish()
	}
	return slow
}
