package redisclient

import "time"

// Done receives the result of a command: exactly one raw RESP reply, or an error.
type Done func(now time.Duration, reply []byte, err error)

// Transport carries commands to a Redis server. Do calls done at most once: before it returns, later, or never, so the
// caller keeps a deadline of its own. Commands arrive in the order of the calls, unless one fails.
type Transport interface {
	Do(now time.Duration, cmd []byte, done Done)
}

// Redirector is a Transport that also reaches other nodes of a Redis Cluster, by address. If asking is true, ASKING is
// sent before the command.
type Redirector interface {
	Transport
	DoAt(now time.Duration, node string, asking bool, cmd []byte, done Done)
}
