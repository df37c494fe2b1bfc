package lb

import "github.com/cespare/xxhash/v2"

// EndpointHash returns the 64-bit xxhash of an endpoint's address, by which shared memory identifies the endpoint.
func EndpointHash(addr string) uint64 { return xxhash.Sum64String(addr) }

// EndpointTag returns what identifies an endpoint in a prefix index, in any store: the lower half of [EndpointHash].
func EndpointTag(addr string) uint32 { return uint32(EndpointHash(addr)) }

// Mix is the finalizer of SplitMix64 (Steele, Lea and Flood, 2014): each bit of the result depends on all of x.
func Mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
