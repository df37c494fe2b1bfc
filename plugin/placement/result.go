package placement

import (
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/request"
	"github.com/warmgate/warmgate/plugin/waiters"
)

// Step is how far a placement has come with what it was asked for.
type Step uint8

// The steps.
const (
	Waits    Step = iota // for its store, or for lists of models: the driver is told when it goes on
	Ready                // planned, and counted at its tenant where that has a budget: it can be submitted
	Asked                // its store has not answered yet: it can wait
	Placed               // counted at an endpoint
	NoPlan               // there is nothing to choose
	NoRoom               // its store has no room for it: it can give up
	Refused              // it is to be answered in an endpoint's place
	Native               // it is left to the gateway
	Planned              // it is a trial, and planned
	Foreseen             // it is a trial, and it is known what would become of it
)

// Result is what has come of a step of a placement, on which its driver acts.
type Result struct {
	Step
	Why      lb.Reason     // there is no plan, or it is refused or left to the gateway
	At       time.Duration // when it was ready, or the store was asked
	Expected time.Duration // in which a request that is refused would likely be placed, 0 if the store has not told
}

// Driver acts on the results of a placement that come later than what was asked for.
type Driver interface {
	waiters.Callee
	request.BodyUser
	Answered(r Result) // if it panics, GrantRecovered is called
}
