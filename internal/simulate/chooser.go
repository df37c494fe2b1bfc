package simulate

import (
	"time"

	"github.com/warmgate/warmgate/internal/simulate/engine"
	"github.com/warmgate/warmgate/lb"
)

// Chooser is a policy that is neither the plugin's nor the gateway's, to compare those with.
type Chooser interface {
	// Choose returns the place of the engine that is to serve a request.
	Choose(now time.Duration, r *Request) (engine int)
	// First notes the first token of an answer, and Last its end, or that the engine has refused the request.
	First(now time.Duration, r *Request)
	Last(now time.Duration, r *Request)
}

// NewChooser makes the policy before engines, whose state it may look at.
type NewChooser func(fleet []*engine.Engine, seed uint64) Chooser

// chosen is a router that asks a Chooser.
type chosen struct {
	gateway
	by Chooser
}

func (c *chosen) route(now time.Duration, r *Request) { c.place(r, c.by.Choose(now, r)) }

func (c *chosen) first(now time.Duration, r *Request) { c.by.First(now, r) }

func (c *chosen) last(now time.Duration, r *Request, _ lb.Verdict) { c.by.Last(now, r) }
