package discovery

import (
	"bytes"

	"github.com/warmgate/warmgate/lb"
)

// flagStates are the states that Envoy's health flags mean for new requests. A flag that is not listed comes from a
// newer Envoy; it makes the endpoint degraded. The flag pending_active_hc means that the first health check has no
// answer yet.
var flagStates = map[string]lb.State{
	"healthy":                        lb.Healthy,
	"degraded_active_hc":             lb.Degraded,
	"degraded_eds_health":            lb.Degraded,
	"degraded_outlier_detection":     lb.Degraded,
	"failed_outlier_check":           lb.Ejected,
	"failed_active_hc":               lb.Unhealthy,
	"failed_eds_health":              lb.Unhealthy,
	"pending_active_hc":              lb.Draining, // not counted until it was checked
	"active_hc_timeout":              lb.Unhealthy,
	"excluded_via_immediate_hc_fail": lb.Draining,
	"eds_status_draining":            lb.Draining,
	"pending_dynamic_removal":        lb.Draining,
}

// rank orders states: of several flags, the state of the highest rank counts. An endpoint that is draining stays so
// when it becomes healthy.
var rank = [...]int{lb.Healthy: 0, lb.Degraded: 1, lb.Ejected: 2, lb.Unhealthy: 3, lb.Draining: 4}

// stateOf parses "healthy", or flags like "/failed_active_hc/active_hc_timeout".
func stateOf(flags []byte) lb.State {
	state := lb.Healthy
	for len(flags) > 0 {
		var flag []byte
		flag, flags, _ = bytes.Cut(flags, []byte("/"))
		if len(flag) == 0 {
			continue
		}
		s, ok := flagStates[string(flag)]
		if !ok {
			s = lb.Degraded
		}
		if rank[s] > rank[state] {
			state = s
		}
	}
	return state
}
