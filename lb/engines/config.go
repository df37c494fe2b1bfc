package engines

import (
	"errors"
	"slices"
	"time"
)

// Config configures how engine samples are turned into costs. Order, Target and RateLimit are keys of
// endpoint_metrics, all others are in the section metrics.
type Config struct {
	Order      Order
	Target     string        // name of the metric for LowestTarget and HighestTarget
	StaleAfter time.Duration // age above which a sample is not used
	Learn      bool          // weights are learned unless they are configured
	Weights    Weights
	RateLimit  float64 // the highest share of requests that one endpoint gets; from 1 on there is no limit
}

func (cfg *Config) Equal(other *Config) bool { return *cfg == *other }

// Order is what endpoint_metrics prefers.
type Order uint8

// The orders.
const (
	ByLoad        Order = iota // the endpoint that is likely to serve the request first
	LowestTarget               // the lowest value of one metric
	HighestTarget              // the highest value of one metric
)

var OrderNames = [...]string{ByLoad: "default", LowestTarget: "least", HighestTarget: "most"}

// String returns the order's name in the configuration.
func (o Order) String() string { return OrderNames[o] }

// UnmarshalText sets the order to the one with the name.
func (o *Order) UnmarshalText(name []byte) error {
	i := slices.Index(OrderNames[:], string(name))
	if i < 0 {
		return errors.New("lb: unknown order " + string(name))
	}
	*o = Order(i)
	return nil
}

// Weights are costs, in requests in flight on an endpoint of weight 1.
type Weights struct {
	Running float64 // of each request in flight
	Queue   float64 // of each request that waits, in addition to Running
	KVCache float64 // of a KV cache in full use
	LoRA    float64 // of loading an adapter in place of another
}
