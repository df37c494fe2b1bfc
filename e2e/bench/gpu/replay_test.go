package gpu

import (
	"strings"
	"testing"

	"github.com/warmgate/warmgate/internal/accesslog"
)

// TestFailedReplay holds that what was measured is not lost where it cannot be replayed.
func TestFailedReplay(t *testing.T) {
	for want, open := range map[string]bool{
		"the replay failed: ": true, "that takes prefix_cache in an open loop": false,
	} {
		rep := &report{fleet: &fleet{cacheTokens: 1 << 19}, traces: []trace{{open: open, log: &accesslog.Log{}}}}
		rep.replay()
		if len(rep.Notes) != 1 || !strings.Contains(rep.Notes[0], want) {
			t.Errorf("%q, want %s", rep.Notes, want)
		}
	}
}
