package istio

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"istio.io/istio/pkg/config/mesh"

	"github.com/warmgate/warmgate/e2e/harness"
)

// TestHot changes the plugin's configuration while answers stream. No listener is replaced, so that they go on for
// longer than one would drain, which is a second here.
func TestHot(t *testing.T) {
	applied, _ := installed(t)
	gateway := controlled(t, harness.DefaultVersion, applied)
	p := gateway.Change(t, func() {
		gateway.apply(with(t, applied, config, config+`"debug_headers": true, `))
	}, 5*time.Second)
	if p.Whole != p.Answers || p.Draining > 0 {
		t.Errorf("want all answers to go on, and no listener to drain: %+v", p)
	}
}

// TestDrainTimes compares what docs/upgrade.md says of Istio's drain times with its code.
func TestDrainTimes(t *testing.T) {
	proxy := mesh.DefaultProxyConfig()
	text := harness.ReadT(t, "docs/upgrade.md")
	for row, want := range map[string]*durationpb.Duration{
		"filters added or removed":          proxy.DrainDuration,
		"the gateway's process or pod ends": proxy.TerminationDrainDuration,
	} {
		pattern := fmt.Sprintf(`(?m)^\| %s \| [^|]* \| %v s \| `, row, want.AsDuration().Seconds())
		if !regexp.MustCompile(pattern).Match(text) {
			t.Errorf("docs/upgrade.md: %s: want %v", row, want.AsDuration())
		}
	}
}
