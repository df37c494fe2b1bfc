package lb

import (
	"errors"
	"slices"
)

// Push is when an endpoint takes another request, so that what it would queue waits in the gateway instead.
type Push uint8

// When an endpoint takes another request.
const (
	Blind       Push = iota // always, but for its cap
	Outstanding             // while it has less in flight than its caps, one of which must be set
	Pending                 // while no request waits inside its engine, and it is below its caps, if it has any
)

// PushNames are the names of the kinds of Push in the configuration.
var PushNames = []string{Blind: "blind", Outstanding: "outstanding", Pending: "pending"}

// String returns the name in the configuration.
func (p Push) String() string { return PushNames[p] }

// UnmarshalText sets p to the one with the name.
func (p *Push) UnmarshalText(name []byte) error {
	i := slices.Index(PushNames, string(name))
	if i < 0 {
		return errors.New("lb: unknown push " + string(name))
	}
	*p = Push(i)
	return nil
}
