package request

import (
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/plugin/host"
)

// Request is one request, as far as that is the same for all that is chosen for it. It is the same on every gateway;
// what is done to it goes through its [host.GatewayStream].
type Request struct {
	Gateway host.GatewayStream
	Context uint32 // the gateway's
	// Trial: it is only asked where it would go. Nothing of it is counted, recorded or learned, and it goes nowhere.
	Trial bool

	Traits Traits
	What   prompt.Call // what the call makes an engine do
	Body   Body        // what has come of the request
}

// Init makes it a request whose body the VM looks after. user is told when that does not come in time.
func (r *Request) Init(gateway host.GatewayStream, context uint32, b *Bodies, user BodyUser) {
	r.Gateway, r.Context = gateway, context
	r.Body = Body{from: gateway, context: context, traits: &r.Traits, all: b, user: user}
}

// Computes reports whether a model works on the request, as far as is known.
func (r *Request) Computes() bool { return r.What == prompt.Computes || r.What == prompt.Unlisted }

// Idle reports whether the call is known to compute nothing, or nothing here.
func (r *Request) Idle() bool { return r.What == prompt.Idle || r.What == prompt.Counts }

// isForModel reports whether the call can only be served by an endpoint that has its model, as far as is known.
func (r *Request) isForModel() bool { return r.What != prompt.Idle && r.What != prompt.Bodiless }
