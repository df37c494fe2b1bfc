package lb

import (
	"slices"

	"github.com/warmgate/warmgate/internal/wire"
)

// This file is limits of targets that are set at run time: see [TaskStore.Overrides].

// TargetLimits are those limits of a target that can be set at run time: requests in flight, tokens a minute and
// requests a minute. 0 is none.
type TargetLimits [3]float64

// Override is what limits of a target were set to at run time. Each is in force while the configured one is what it was
// when the other was set.
type Override struct {
	Target uint64       // [EndpointHash] of its name
	Set    TargetLimits // negative: as configured
	Over   TargetLimits // what was configured
}

// NoOverride returns that of a target whose limits are as configured.
func NoOverride(target string, configured TargetLimits) Override {
	return Override{Target: EndpointHash(target), Set: TargetLimits{-1, -1, -1}, Over: configured}
}

// IsNone reports whether all limits are as configured.
func (o *Override) IsNone() bool {
	return !slices.ContainsFunc(o.Set[:], func(limit float64) bool { return limit >= 0 })
}

// Apply returns what is in force where these limits are configured, and which of it was set at run time.
func (o *Override) Apply(configured TargetLimits) (inForce TargetLimits, set [3]bool) {
	inForce = configured
	for i := range inForce {
		if set[i] = o.Set[i] >= 0 && o.Over[i] == configured[i]; set[i] {
			inForce[i] = o.Set[i]
		}
	}
	return inForce, set
}

// maxOverrides is for how many targets a store keeps limits: four times as many as a configuration has. Those that are
// not configured any more make room for others.
const maxOverrides = 256

// overrideSize is how many bytes one has in a store:
//
//	8   hash of the target's name
//	24  Set, each a float64
//	24  Over, likewise
const overrideSize = 8 + 2*3*8

// PackOverrides returns them as stores keep them: the one that was set last behind the others.
func PackOverrides(list []Override) []byte {
	w := make(wire.Writer, 0, len(list)*overrideSize)
	for i := range list {
		w = w.Uint64(list[i].Target)
		for _, limits := range [2]TargetLimits{list[i].Set, list[i].Over} {
			for _, limit := range limits {
				w = w.Float64(limit)
			}
		}
	}
	return w
}

// ReadOverrides reads what PackOverrides has written. What is cut off ends the list.
func ReadOverrides(raw []byte) (list []Override) {
	for in := wire.NewReader(raw); in.Len() >= overrideSize && len(list) < maxOverrides; {
		o := Override{Target: in.Uint64()}
		for _, limits := range [2]*TargetLimits{&o.Set, &o.Over} {
			for i := range limits {
				limits[i] = in.Float64()
			}
		}
		list = append(list, o)
	}
	return list
}

// WithOverride returns the list with this one in place of the target's. If there are too many the one that was set
// first is dropped.
func WithOverride(list []Override, o Override) []Override {
	list = slices.DeleteFunc(slices.Clone(list), func(other Override) bool { return other.Target == o.Target })
	if o.IsNone() {
		return list
	}
	return append(list[max(0, len(list)+1-maxOverrides):], o)
}

// Overrides are those that a VM knows of. Nil has none.
type Overrides struct {
	list    []Override
	version uint64
}

// Put replaces them.
func (o *Overrides) Put(list []Override) {
	if !slices.Equal(o.list, list) {
		o.list = list
		o.version++
	}
}

// Version changes with them.
func (o *Overrides) Version() uint64 {
	if o == nil {
		return 0
	}
	return o.version
}

// Apply is [Override.Apply] for the target with the name.
func (o *Overrides) Apply(target string, configured TargetLimits) (inForce TargetLimits, set [3]bool) {
	if o == nil || len(o.list) == 0 {
		return configured, set
	}
	hash := EndpointHash(target)
	for i := range o.list {
		if o.list[i].Target == hash {
			return o.list[i].Apply(configured)
		}
	}
	return configured, set
}
