package request

import (
	"slices"
	"strings"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
)

// This file is how a request shows to which endpoints it is limited: the subset hint of the endpoint picker protocol of
// the Gateway API Inference Extension (its proposal 004).

// subsetHeader has the endpoints, "ip:port" with commas between them.
const subsetHeader = "x-gateway-destination-endpoint-subset"

// maxSubset is how many endpoints of a hint count. To leave others out keeps the request inside of what is hinted at.
const maxSubset = 1024

// Subset returns the endpoints that the request is limited to, as [lb.Request.Subset] has them: nil for no hint, none
// for an empty one.
func (s *Subject) Subset() []uint64 {
	var endpoints []uint64
	switch s.Config.SubsetHint {
	case config.SubsetHeader:
		s.Traits.Read(s.Gateway)
		for _, h := range s.Traits.Headers {
			if h[0] == subsetHeader {
				endpoints = addEndpoints(endpoints, h[1])
			}
		}
	case config.SubsetMetadata:
		endpoints = listedEndpoints(s.Gateway.SubsetHint())
	}
	slices.Sort(endpoints)
	return endpoints
}

// addEndpoints adds the endpoints of a text. The result is not nil.
func addEndpoints(to []uint64, text string) []uint64 {
	if to == nil {
		to = []uint64{}
	}
	for more := true; more && len(to) < maxSubset; {
		var addr string
		addr, text, more = strings.Cut(text, ",")
		if addr = strings.TrimSpace(addr); addr != "" {
			to = append(to, lb.EndpointHash(addr))
		}
	}
	return to
}

// listedEndpoints returns the endpoints of a property: a text, or a list, which gateways hand over like headers, with
// the items as names and no values. It begins with their number, u32, and the lengths of each name and value, u32;
// behind them are these, each with a zero byte at its end.
func listedEndpoints(property []byte) (endpoints []uint64) {
	switch {
	case property == nil:
		return nil
	case !slices.Contains(property, 0):
		return addEndpoints(nil, string(property))
	}
	endpoints = []uint64{}
	r := wire.NewReader(property)
	n := int(r.Uint32())
	lengths := wire.NewReader(r.Take(8 * min(n, len(property))))
	for range min(n, maxSubset) {
		name := r.Take(int(lengths.Uint32()) + 1)
		r.Take(int(lengths.Uint32()) + 1)
		if r.OK() && len(name) > 1 {
			endpoints = addEndpoints(endpoints, string(name[:len(name)-1]))
		}
	}
	return endpoints
}
