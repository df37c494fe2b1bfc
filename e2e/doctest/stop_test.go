package doctest

import (
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/harness"
)

// TestStoppedEarly tells Envoy to stop while it compiles the module. It crashes, as docs/troubleshooting.md says,
// unless the commands there are run before.
func TestStoppedEarly(t *testing.T) {
	harness.LongT(t)
	needs(t, "curl", "setpriv")
	blocks := shell(t, "docs/troubleshooting.md")
	if len(blocks) != 1 {
		t.Fatalf("the document has changed: %q", blocks)
	}
	// On a busy machine V8 goes on for longer than the few seconds of the document.
	const idles = `used() { awk '{print $14 + $15}' /proc/$!/stat; }
for i in 1 2 3; do
  until before=$(used); sleep 2; [ $(($(used) - before)) -lt 20 ]; do :; done
done
`
	const compiles = "initializing init manager" // the last line that Envoy logs before that
	for _, c := range []struct{ name, wait, ends string }{
		{"at once", "", "ended with 139"}, {"later", blocks[0] + idles, "ended with 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			output := play(t, stage(t), "cd envoy-config\n"+
				"envoy -c envoy.yaml --concurrency 2 --component-log-level main:info &\n"+
				"until grep -q '"+compiles+"' envoy.log; do sleep 0.1; done\n"+
				c.wait+"kill $!\nwait $! && code=0 || code=$?\necho; echo ended with $code\n")
			if !strings.HasSuffix(output, c.ends+"\n") {
				t.Errorf("want %s, got\n%s", c.ends, output)
			}
		})
	}
}
