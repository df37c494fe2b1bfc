package core

import (
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/waiters"
)

// step is how far a placement has come with what it was asked for.
type step uint8

const (
	stepWaits   step = iota // for its store, or for lists of models: the driver is told when it goes on
	stepReady               // planned, and counted at its tenant: it can be submitted
	stepAsked               // its store has not answered yet: it can wait
	stepPlaced              // counted at an endpoint
	stepNoPlan              // there is nothing to choose
	stepNoRoom              // its store has no room for it: it can give up
	stepRefused             // it is to be answered in an endpoint's place
	stepLeft                // it is left to the gateway
)

// result is what has come of a step of a placement, on which its driver acts.
type result struct {
	step
	why      lb.Reason     // there is no plan, or it is refused or left
	at       time.Duration // when it was ready, or the store was asked
	expected time.Duration // in which a request that is refused would likely be placed, 0 if the store has not told
}

// driver acts on the results of a placement that come later than what was asked for.
type driver interface {
	waiters.Request
	answered(r result) // if it panics, GrantRecovered is called
}
