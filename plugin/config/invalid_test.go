package config

import (
	"strings"
	"testing"
	"time"
)

// A value that cannot be read is one problem: what it should be like beside other keys is not known.
func TestInvalidValueIsOneProblem(t *testing.T) {
	for name, raw := range map[string]string{
		"unit": `{"lb_policy":"prefix_cache","lb_config":{"unit":"bytes","envoy":{"admin_cluster":"a"}}}`,
		"metrics cluster": `{"lb_policy":"endpoint_metrics","lb_config":{"envoy":{"admin_cluster":"a",` +
			`"metrics_cluster":7}}}`,
	} {
		_, err := Parse([]byte(raw), Envoy)
		if err == nil || !strings.HasPrefix(err.Error(), "config: 1 problem\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Fractions of a millisecond are rounded to the nanosecond, not truncated.
func TestMillisecondsAreExact(t *testing.T) {
	if got := ofMs(1.001); got != 1001*time.Microsecond {
		t.Errorf("1.001 ms is read as %v", got)
	}
}
