package core

import (
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/plugin/host"
)

// request is one request, as far as that is the same for all that is chosen for it. It is the same on every gateway;
// what is done to it goes through its [host.GatewayStream].
type request struct {
	gateway host.GatewayStream
	context uint32 // the gateway's

	traits traits
	what   prompt.Call // what the call makes an engine do
	body   body        // what has come of the request
}

// init makes it a request whose body the VM looks after. user is told when that does not come in time.
func (r *request) init(gateway host.GatewayStream, context uint32, b *bodies, user bodyUser) {
	r.gateway, r.context = gateway, context
	r.body = body{from: gateway, context: context, traits: &r.traits, all: b, user: user}
}

// computes reports whether a model works on the request, as far as is known.
func (r *request) computes() bool { return r.what == prompt.Computes || r.what == prompt.Unlisted }

// idle reports whether the call is known to compute nothing, or nothing here.
func (r *request) idle() bool { return r.what == prompt.Idle || r.what == prompt.Counts }

// isForModel reports whether the call can only be served by an endpoint that has its model, as far as is known.
func (r *request) isForModel() bool { return r.what != prompt.Idle && r.what != prompt.Bodiless }
