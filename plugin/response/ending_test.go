package response

import (
	"testing"

	"github.com/warmgate/warmgate/lb/answer"
	"github.com/warmgate/warmgate/plugin/measured"
)

// endings are the ways in which a request can end.
var endings = []struct {
	status   int
	complete bool
	reached  bool
	content  answer.Outcome
	details  string
	want     measured.Outcome
}{
	{200, true, true, answer.Complete, "via_upstream", measured.OK},
	{204, true, true, answer.Complete, "via_upstream", measured.OK},
	{302, true, true, answer.Complete, "via_upstream", measured.OK},
	{200, true, false, answer.Complete, "direct_response", measured.OK}, // by the gateway

	// a WebSocket, which either side closes
	{101, false, true, answer.Complete, "via_upstream", measured.OK},
	{101, false, true, answer.Complete, "", measured.OK},
	{101, false, true, answer.Complete, "downstream_remote_disconnect", measured.OK},
	{101, false, true, answer.Complete, "upstream_reset_after_response_started{remote_reset}", measured.OK},
	{101, true, true, answer.Unfinished, "via_upstream", measured.OK},

	// the content of a good answer
	{200, true, true, answer.Refused, "via_upstream", measured.ClientError},
	{200, true, true, answer.Overloaded, "via_upstream", measured.ServerFailed},
	{200, true, true, answer.Failed, "via_upstream", measured.ServerFailed},
	{200, true, true, answer.Aborted, "via_upstream", measured.ServerFailed},
	{200, true, true, answer.Unfinished, "via_upstream", measured.ServerFailed},
	{200, true, true, answer.Empty, "via_upstream", measured.ServerFailed},

	// the status of a server
	{400, true, true, answer.Complete, "via_upstream", measured.ClientError},
	{404, true, true, answer.Complete, "", measured.ClientError},
	{408, true, true, answer.Complete, "via_upstream", measured.ClientError},
	{413, true, true, answer.Complete, "via_upstream", measured.ClientError},
	{429, true, true, answer.Complete, "via_upstream", measured.ServerFailed},
	{499, true, true, answer.Complete, "via_upstream", measured.ClientLeft},
	{500, true, true, answer.Complete, "via_upstream", measured.ServerFailed},
	{501, true, true, answer.Complete, "via_upstream", measured.ClientError},
	{502, true, true, answer.Complete, "", measured.ServerFailed},
	{503, true, true, answer.Complete, "via_upstream", measured.ServerFailed},
	{504, true, true, answer.Complete, "via_upstream", measured.TimedOut},
	{505, true, true, answer.Complete, "via_upstream", measured.ClientError},
	{529, true, true, answer.Complete, "via_upstream", measured.ServerFailed},

	// the gateway in its place
	{503, true, false, answer.Complete, "no_healthy_upstream", measured.ServerFailed},
	{503, true, false, answer.Complete, "cluster_not_found", measured.ServerFailed},
	{
		503, true, true, answer.Complete, "upstream_reset_before_response_started{connection_failure}",
		measured.ServerFailed,
	},
	{503, true, true, answer.Complete, "upstream_reset_before_response_started{overflow}", measured.ServerFailed},
	{503, true, true, answer.Complete, "upstream_reset_before_response_started{remote_reset}", measured.ServerFailed},
	{503, true, false, answer.Complete, "fault_filter_abort", measured.ServerFailed},
	{503, true, false, answer.Complete, "", measured.ServerFailed},
	{500, true, false, answer.Complete, "response_payload_too_large", measured.ServerFailed},
	{504, true, true, answer.Complete, "response_timeout", measured.TimedOut},
	{504, true, true, answer.Complete, "upstream_per_try_timeout", measured.TimedOut},
	{504, true, true, answer.Complete, "stream_idle_timeout", measured.TimedOut},
	{408, true, false, answer.Complete, "stream_idle_timeout", measured.TimedOut},
	{408, true, false, answer.Complete, "request_overall_timeout", measured.TimedOut},
	{401, true, false, answer.Complete, "jwt_authn_access_denied{Jwt_is_missing}", measured.Refused},
	{403, true, false, answer.Complete, "rbac_access_denied", measured.Refused},
	{404, true, false, answer.Complete, "route_not_found", measured.Refused},
	{413, true, false, answer.Complete, "request_payload_too_large", measured.Refused},
	{429, true, false, answer.Complete, "request_rate_limited", measured.Refused},

	// none, or not all of an answer
	{0, false, false, answer.Complete, "", measured.ClientLeft},
	{0, false, true, answer.Complete, "downstream_remote_disconnect", measured.ClientLeft},
	{0, false, true, answer.Complete, "http2.remote_reset", measured.ClientLeft},
	{0, false, true, answer.Complete, "downstream_local_disconnect(upstream_is_draining)", measured.ClientLeft},
	{0, false, true, answer.Complete, "max_duration_timeout", measured.TimedOut},
	{200, false, true, answer.Complete, "downstream_remote_disconnect", measured.ClientLeft},
	{200, false, true, answer.Complete, "via_upstream", measured.ClientLeft},
	{200, false, true, answer.Complete, "", measured.ClientLeft},
	{500, false, true, answer.Complete, "downstream_remote_disconnect", measured.ClientLeft},
	{
		200, false, true, answer.Complete, "upstream_reset_after_response_started{connection_termination}",
		measured.ServerFailed,
	},
	{200, false, true, answer.Failed, "downstream_remote_disconnect", measured.ServerFailed}, // after it was told so
	{200, false, true, answer.Refused, "downstream_remote_disconnect", measured.ClientError},
	{200, false, true, answer.Unfinished, "downstream_remote_disconnect", measured.ClientLeft},
	{200, false, true, answer.Complete, "stream_idle_timeout", measured.TimedOut},
	{200, false, true, answer.Complete, "upstream_max_stream_duration_reached", measured.TimedOut},
	{200, false, true, answer.Complete, "response_timeout", measured.TimedOut},
}

func TestEnding(t *testing.T) {
	for _, c := range endings {
		r := State{Status: c.status, Complete: c.complete, Reached: c.reached, Outcome: c.content}
		if got := r.Ending(false, func() string { return c.details }); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
		if got := r.Ending(true, func() string { return c.details }); got != measured.Refused {
			t.Errorf("refused by the plugin, %+v: %s", c, got)
		}
	}
}

// The gateway is not asked how a good answer came about.
func TestEndingWithoutDetails(t *testing.T) {
	r := State{Status: 200, Complete: true}
	r.Ending(false, func() string {
		t.Error("asked")
		return ""
	})
}
