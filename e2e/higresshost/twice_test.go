package higresshost_test

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/fakehost"
	"github.com/warmgate/warmgate/e2e/higresshost"
)

// A request that an instance of the plugin in front of this one has sent somewhere is left alone, and one that it has
// not is decided on.
func TestBehindAnotherInstance(t *testing.T) {
	gw := warmgate(t, higresshost.Options{})
	const repeated = "warmgate_decisions_total;policy=none;reason=already_decided"
	for _, c := range []struct {
		note    string
		decides bool
	}{
		{"host=10.0.0.2:8000 reason=chosen load=3", false},
		{"host=10.0.0.2:8000 reason=body_encoded load=3", false},
		{"host=10.0.0.2:8000 reason=shadow load=3", true},
		{"host=- reason=no_rule", true},
	} {
		chosen, passed := decisions(gw, "chosen"), gw.Metrics().Counter(repeated)
		s := gw.Worker(0).NewStream()
		s.FilterState["warmgate"] = c.note
		s.RequestHeaders(fakehost.H(":method", "GET", ":path", "/v1/models", ":authority", "llm"), true)
		if got := decisions(gw, "chosen")-chosen == 1; got != c.decides {
			t.Errorf("%s: decided %v", c.note, got)
		}
		if got := gw.Metrics().Counter(repeated)-passed == 1; got == c.decides {
			t.Errorf("%s: left alone %v", c.note, got)
		}
		if got := s.FilterState["warmgate"] == c.note; got == c.decides {
			t.Errorf("%s: the access log has %s", c.note, s.FilterState["warmgate"])
		}
		s.ResponseHeaders(fakehost.H(":status", "200"), true)
	}
	gw.Advance(time.Second)
	audit(t, gw)
}
