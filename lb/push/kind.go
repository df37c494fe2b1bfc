package push

import (
	"errors"
	"slices"
)

// Kind is when an endpoint takes another request, so that what it would queue waits in the gateway instead.
type Kind uint8

// When an endpoint takes another request.
const (
	Blind       Kind = iota // always, but for its cap
	Outstanding             // while it has less in flight than its caps, one of which must be set
	Pending                 // while no request waits inside its engine, and it is below its caps, if it has any
)

// Names are the names of the kinds in the configuration.
var Names = []string{Blind: "blind", Outstanding: "outstanding", Pending: "pending"}

// String returns the name in the configuration.
func (p Kind) String() string { return Names[p] }

// UnmarshalText sets p to the one with the name.
func (p *Kind) UnmarshalText(name []byte) error {
	i := slices.Index(Names, string(name))
	if i < 0 {
		return errors.New("push: unknown kind " + string(name))
	}
	*p = Kind(i)
	return nil
}
