package redisclient

import (
	"errors"
	"slices"
	"time"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
)

// maxTries is how often one call is sent at most: first, again after the script was loaded, and again to another node.
const maxTries = 3

// client sends commands, loads scripts that Redis does not know, follows redirections, and enforces deadlines: late.go
// describes what happens after one.
type client struct {
	transport Transport
	timeout   time.Duration
	kv        lb.KV
	breaker   breaker
	master    master
	pending   []*call                   // finished ones included, until the next expire
	loading   map[*script]time.Duration // scripts being loaded, and until when that is relied on
	notLoaded *ReplyError               // why the latest of them was refused, nil if it was not
}

// call is one command that awaits its answer.
type call struct {
	script    *script      // nil for a command that runs none
	node      *clusterNode // of the keys it names; nil for a command without keys
	cmd       []byte
	deadline  time.Duration
	tries     int
	moved     bool // it was already redirected
	probe     bool // it is sent although the breaker is open, and its success closes that
	postponed bool // its deadline was moved
	finished  bool // done has been called
	done      func(time.Duration, Value, error)
}

// clusterNode is the node of a Redis Cluster that has a scope's keys, as far as known.
type clusterNode struct{ addr string } // "" for the configured server

func newClient(t Transport, timeout time.Duration, kv lb.KV) *client {
	return &client{transport: t, timeout: timeout, kv: kv, loading: map[*script]time.Duration{}}
}

// send sends a command. done is called exactly once: with the answer, with an error, or by expire. While the breaker is
// open, everything but a probe fails at once.
func (c *client) send(
	now time.Duration, s *script, n *clusterNode, cmd []byte, probe bool, done func(time.Duration, Value, error),
) *call {
	if c.breaker.open && !probe {
		done(now, Value{}, ErrBreakerOpen)
		return nil
	}
	k := &call{script: s, node: n, cmd: cmd, deadline: now + c.timeout, probe: probe, done: done}
	c.pending = append(c.pending, k)
	addr := ""
	if n != nil {
		addr = n.addr
	}
	c.sendTo(now, k, addr, false)
	return k
}

// sendTo sends the call to the given node, "" being the configured server.
func (c *client) sendTo(now time.Duration, k *call, addr string, asking bool) {
	k.tries++
	c.transmit(now, addr, asking, k.cmd, func(now time.Duration, reply []byte, err error) {
		if k.finished {
			return // a late answer, or a second one
		}
		v, err := parseReply(reply, err)
		if refused, ok := err.(*ReplyError); ok {
			if c.sendAgain(now, k, addr, asking, refused) {
				return
			}
			if refused.Code == "NOSCRIPT" && c.notLoaded != nil {
				err = c.notLoaded
			}
		}
		c.finish(now, k, v, err)
	})
}

// transmit hands one command to the transport.
func (c *client) transmit(now time.Duration, addr string, asking bool, cmd []byte, done Done) {
	if addr == "" {
		addr = c.master.addr
	}
	if r, ok := c.transport.(Redirector); ok && addr != "" {
		r.DoAt(now, addr, asking, cmd, done)
		return
	}
	c.transport.Do(now, cmd, done)
}

// parseReply returns the single value of a reply, and an error reply as an error.
func parseReply(reply []byte, err error) (Value, error) {
	if err != nil {
		return Value{}, err
	}
	v, rest, err := Parse(reply)
	switch {
	case err != nil || len(rest) > 0:
		return Value{}, ErrGarbage
	case v.Kind == ErrorReply:
		return Value{}, newReplyError(v.Str)
	}
	return v, nil
}

// sendAgain sends a refused call once more, and reports whether it did. It does so only if that can help and the
// deadline has not passed.
func (c *client) sendAgain(now time.Duration, k *call, addr string, asking bool, refused *ReplyError) bool {
	if k.script == nil || k.node == nil || k.tries >= maxTries || now >= k.deadline {
		return false
	}
	switch refused.action() {
	case reload:
		loads := c.loadScript(now, k, addr)
		c.sendTo(now, k, addr, asking)
		if loads {
			c.loadSequence(now, addr)
		}
	case redirect:
		return c.follow(now, k, refused)
	case retry:
		if k.tries > 1 {
			return false
		}
		c.sendTo(now, k, addr, false)
	default:
		return false
	}
	return true
}

// follow sends a call to the node to which it was redirected, and reports whether it did. It does so once for each
// call.
func (c *client) follow(now time.Duration, k *call, refused *ReplyError) bool {
	if _, ok := c.transport.(Redirector); !ok || k.moved || refused.node == "" {
		return false
	}
	k.moved = true
	if refused.Code == "MOVED" {
		k.node.addr = refused.node
	}
	c.sendTo(now, k, refused.node, refused.Code == "ASK")
	return true
}

// loadScript sends the script of a call itself, unless that was just done: calls that need it follow on the same
// connection. For the configured server it is enough that one worker of a gateway does so; the others first try again
// without loading it. It reports whether it did.
func (c *client) loadScript(now time.Duration, k *call, addr string) bool {
	if now < c.loading[k.script] || addr == "" && k.tries == 1 && !c.claimLoad(now, k.script) {
		return false
	}
	c.load(now, addr, k.script)
	return true
}

// loadSequence sends the scripts whose commands follow each other without waiting for answers. If one of them became
// known only by being needed, commands behind it would be carried out before it.
func (c *client) loadSequence(now time.Duration, addr string) {
	for _, s := range scriptsInSequence {
		if now >= c.loading[s] {
			c.load(now, addr, s)
		}
	}
}

// load sends a script to the given node, "" being the configured server.
func (c *client) load(now time.Duration, addr string, s *script) {
	c.loading[s] = now + c.timeout
	c.transmit(now, addr, false, s.load(), func(_ time.Duration, reply []byte, err error) {
		delete(c.loading, s)
		_, err = parseReply(reply, err)
		c.notLoaded, _ = err.(*ReplyError)
	})
}

// claimTTL is how long a worker relies on another worker's load of a script.
const claimTTL = 100 * time.Millisecond

// claimLoad reports whether this worker is the one that loads the script for its gateway. The claims of all workers are
// in shared memory.
func (c *client) claimLoad(now time.Duration, s *script) bool {
	key := "warmgate/1/script/" + s.sum()
	val, cas, err := c.kv.Get(key)
	if err == nil && len(val) == 8 {
		if at := wire.Duration(val, 0); now >= at && now-at < claimTTL {
			return false
		}
	}
	err = c.kv.Set(key, wire.Writer(nil).Duration(now), cas)
	return !errors.Is(err, lb.ErrMismatch)
}

// finish ends a call. If that opens the breaker, all other calls fail too.
func (c *client) finish(now time.Duration, k *call, v Value, err error) {
	k.finished = true
	wasOpen := c.breaker.open
	if err == nil || isFullTable(err) {
		c.breaker.success(now, k.probe)
	} else {
		c.breaker.failure(now)
		c.master.addr = "" // it may be another server by now
		if k.node != nil {
			k.node.addr = "" // the keys may have moved again
		}
	}
	if isReplica(err) {
		c.metReplica(now)
	}
	k.done(now, v, err)
	if c.breaker.open && !wasOpen {
		c.failPending(now)
	}
}

// failPending fails all calls but probes: once the breaker is open, answers are unlikely.
func (c *client) failPending(now time.Duration) {
	for _, k := range c.pending {
		if !k.finished && !k.probe {
			c.finish(now, k, Value{}, ErrTimeout)
		}
	}
}

// postpone moves every deadline by d, but each deadline only once.
func (c *client) postpone(d time.Duration) {
	for _, k := range c.pending {
		if !k.postponed {
			k.postponed = true
			k.deadline += d
		}
	}
}

// expire fails the calls whose deadlines have passed. It returns the earliest deadline of the others, 0 if there are
// none.
func (c *client) expire(now time.Duration) time.Duration {
	for _, k := range c.pending {
		if !k.finished && now >= k.deadline {
			c.finish(now, k, Value{}, ErrTimeout)
		}
	}
	c.pending = slices.DeleteFunc(c.pending, func(k *call) bool { return k.finished })
	next := time.Duration(0)
	for _, k := range c.pending {
		if next == 0 || k.deadline < next {
			next = k.deadline
		}
	}
	return next
}
