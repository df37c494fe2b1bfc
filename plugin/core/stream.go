package core

import (
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/request"
	"github.com/warmgate/warmgate/plugin/vm"
)

// Stream is one request, and its row of choices.
type Stream struct {
	request.Request
	plugin *vm.Plugin
	answer host.Answer // of the plugin's own, nil for a request that is placed
	// settle answers a trial instead of letting it go on, and returns what becomes of it; nil for other requests
	settle func(host.Action) host.Action
	first  *choice // the first of its row
}
