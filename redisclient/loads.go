package redisclient

import (
	"cmp"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// maxLoadAddrs is how many endpoints one call of Loads may name.
const maxLoadAddrs = 4000

// queueHead is how many bytes of a queue there are at least.
const queueHead = 96

// Loads looks up the requests and tokens in flight at the endpoints, summed over all owners of all gateways. done is
// called exactly once, with one load per address, or with an error: lb.ErrNoRoom for no address and for more than 4000.
// Loads changes nothing in Redis and does not make the caller an owner. Many addresses are split over several commands.
func (s *Store) Loads(now time.Duration, scope string, addrs []string, done func([]lb.Load, error)) {
	s.Room(now, scope, addrs, func(loads []lb.Load, _ lb.QueueStats, err error) { done(loads, err) })
}

// Room looks up what Loads does, and in the same step what waits in the queue of the scope.
func (s *Store) Room(
	now time.Duration, scope string, addrs []string, done func([]lb.Load, lb.QueueStats, error),
) {
	if len(addrs) == 0 || len(addrs) > maxLoadAddrs {
		done(nil, lb.QueueStats{}, lb.ErrNoRoom)
		return
	}
	keys, node := s.placeOf(scope)
	q := &loadQuery{
		loads: make([]lb.Load, len(addrs)), done: done,
		waiting: (len(addrs) + endpointsPerCommand - 1) / endpointsPerCommand,
	}
	for from := 0; from < len(addrs); from += endpointsPerCommand {
		part := addrs[from:min(from+endpointsPerCommand, len(addrs))]
		cmd := loadsCommand(keys, part)
		s.owner.client.send(now, scriptLoads, node, cmd, false, func(_ time.Duration, v Value, err error) {
			q.handleReply(from, len(part), v, err)
		})
	}
}

// placeOf returns the keys of a scope and the node that has them, without making the caller an owner.
func (s *Store) placeOf(scope string) (Keys, *clusterNode) {
	scope = s.scopeName(scope)
	if sc := s.scopes[scope]; sc != nil {
		return KeysOf(scope), &sc.ledger.node
	}
	return KeysOf(scope), &clusterNode{}
}

func loadsCommand(keys Keys, addrs []string) []byte {
	b := scriptLoads.command(nil, 2, len(addrs))
	b = appendArg(b, keys.Table)
	b = appendArg(b, keys.Rows)
	for _, addr := range addrs {
		b = appendArg(b, addr)
	}
	return b
}

// loadQuery collects the answers to one call of [Store.Room].
type loadQuery struct {
	loads   []lb.Load // nil once a command has failed
	queue   lb.QueueStats
	waiting int   // commands without an answer
	err     error // the first one
	done    func([]lb.Load, lb.QueueStats, error)
}

// handleReply takes the answer about n addresses from the given index on.
func (q *loadQuery) handleReply(from, n int, v Value, err error) {
	behind := len(v.Str) - n*tableRow
	if err == nil && (v.Kind != Bulk || behind != 0 && behind < queueHead) {
		err = ErrGarbage
	}
	if q.err = cmp.Or(q.err, err); q.err != nil {
		q.loads = nil
	} else {
		for i := range n {
			q.loads[from+i] = parseLoad(v.Str[i*tableRow:])
		}
		q.queue = queueStats(v.Str[n*tableRow:])
	}
	if q.waiting--; q.waiting == 0 {
		q.done(q.loads, q.queue, q.err)
	}
}
