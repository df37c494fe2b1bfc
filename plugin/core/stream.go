package core

import (
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/plugin/host"
)

// Stream is one request, as far as that is the same for all that is chosen for it, and its row of placements. It is the
// same on every gateway; what it does to the request goes through its [GatewayStream].
type Stream struct {
	host.GatewayStream
	context uint32 // the gateway's
	plugin  *Plugin

	traits traits
	what   prompt.Call // what the call makes an engine do
	body   body        // what has come of the request
	answer host.Answer // of the plugin's own, nil for a request that is placed
	first  *placement  // the first of its row
}
