package lb

import "github.com/cespare/xxhash/v2"

// EndpointHash returns the 64-bit xxhash of an endpoint's address, by which shared memory identifies the endpoint.
func EndpointHash(addr string) uint64 { return xxhash.Sum64String(addr) }

// EndpointTag returns what identifies an endpoint in a prefix index, in any store: the lower half of [EndpointHash].
func EndpointTag(addr string) uint32 { return uint32(EndpointHash(addr)) }
