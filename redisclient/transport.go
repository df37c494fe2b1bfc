package redisclient

import "time"

// Done receives the answer to a command: exactly one raw RESP reply, or an error.
type Done func(now time.Duration, reply []byte, err error)

// Transport carries commands to a Redis server. done is called at most once, possibly before Do returns, possibly never:
// whoever calls keeps a deadline of their own. Commands arrive in the order in which they were given, unless one fails.
type Transport interface {
	Do(now time.Duration, cmd []byte, done Done)
}

// Redirector is a Transport that can reach a node of a Redis Cluster by its address as well. asking sends ASKING first.
type Redirector interface {
	Transport
	DoAt(now time.Duration, node string, asking bool, cmd []byte, done Done)
}
