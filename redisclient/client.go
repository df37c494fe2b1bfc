package redisclient

import (
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// maxTries is how often one call is sent: once, again when the script had to be loaded, and again at another node.
const maxTries = 3

// client sends scripts, sees to it that Redis knows them, and gives up in time.
type client struct {
	transport Transport
	timeout   time.Duration
	kv        lb.KV
	breaker   breaker
	pending   []*call                   // answered ones included, until expire
	loading   map[*script]time.Duration // until when a load that is on its way is relied on
}

// call is one script on its way.
type call struct {
	script *script // nil for a command that is none
	home   *home   // of the data that it is about; nil for a command that is about none
	cmd    []byte
	until  time.Duration
	tries  int
	moved  bool // it was sent on to another node
	probe  bool // goes out, and is believed, also while the breaker is open
	late   bool // its deadline was moved
	over   bool // done has been called
	done   func(time.Duration, Value, error)
}

// home is where in a Redis Cluster the data of a scope are, as far as is known.
type home struct{ node string } // "" for the configured server

func newClient(t Transport, timeout time.Duration, kv lb.KV) *client {
	return &client{transport: t, timeout: timeout, kv: kv, loading: map[*script]time.Duration{}}
}

// send sends a script. done is called exactly once: with the answer, with an error, or by expire.
func (c *client) send(
	now time.Duration, s *script, h *home, cmd []byte, probe bool, done func(time.Duration, Value, error),
) *call {
	if c.breaker.open && !probe {
		done(now, Value{}, ErrOpen)
		return nil
	}
	k := &call{script: s, home: h, cmd: cmd, until: now + c.timeout, probe: probe, done: done}
	c.pending = append(c.pending, k)
	node := ""
	if h != nil {
		node = h.node
	}
	c.try(now, k, node, false)
	return k
}

// try sends the call to the given node, "" being the configured server.
func (c *client) try(now time.Duration, k *call, node string, asking bool) {
	k.tries++
	c.do(now, node, asking, k.cmd, func(now time.Duration, reply []byte, err error) {
		if k.over {
			return
		}
		v, err := whole(reply, err)
		if refused, ok := err.(*ReplyError); ok && c.again(now, k, node, asking, refused) {
			return
		}
		c.finish(now, k, v, err)
	})
}

// do sends one command.
func (c *client) do(now time.Duration, node string, asking bool, cmd []byte, done Done) {
	if r, ok := c.transport.(Redirector); ok && node != "" {
		r.DoAt(now, node, asking, cmd, done)
		return
	}
	c.transport.Do(now, cmd, done)
}

// whole returns the one value that a reply holds, and an error reply as an error.
func whole(reply []byte, err error) (Value, error) {
	if err != nil {
		return Value{}, err
	}
	v, rest, err := Parse(reply)
	switch {
	case err != nil || len(rest) > 0:
		return Value{}, ErrGarbage
	case v.Kind == Failed:
		return Value{}, newReplyError(v.Str)
	}
	return v, nil
}

// again sends a refused call once more if that can help.
func (c *client) again(now time.Duration, k *call, node string, asking bool, refused *ReplyError) bool {
	if k.script == nil || k.home == nil || k.tries >= maxTries || now >= k.until {
		return false
	}
	switch refused.class() {
	case reload:
		c.load(now, k, node)
		c.try(now, k, node, asking)
	case move:
		if _, ok := c.transport.(Redirector); !ok || k.moved || refused.node == "" {
			return false // there is no way, or it was followed once already
		}
		k.moved = true
		if refused.Code == "MOVED" {
			k.home.node = refused.node
		}
		c.try(now, k, refused.node, refused.Code == "ASK")
	case retry:
		if k.tries > 1 {
			return false
		}
		c.try(now, k, node, false)
	default:
		return false
	}
	return true
}

// load makes Redis know the script, unless that is on its way already: the calls that need it go out right behind. One
// worker of a gateway is enough for the configured server, so the others first see whether that helps them too.
func (c *client) load(now time.Duration, k *call, node string) {
	s := k.script
	if now < c.loading[s] || node == "" && k.tries == 1 && !c.claim(now, s) {
		return
	}
	c.loading[s] = now + c.timeout
	c.do(now, node, false, s.load(), func(time.Duration, []byte, error) { delete(c.loading, s) })
}

// claimSpan is how long another worker's load of a script is relied on.
const claimSpan = 100 * time.Millisecond

// claim says whether this worker is to load the script for its gateway.
func (c *client) claim(now time.Duration, s *script) bool {
	key := "warmgate/1/script/" + s.sha
	val, cas, err := c.kv.Get(key)
	if err == nil && len(val) == 8 {
		if at := time.Duration(binary.LittleEndian.Uint64(val)); now >= at && now-at < claimSpan {
			return false
		}
	}
	err = c.kv.Set(key, binary.LittleEndian.AppendUint64(nil, uint64(now)), cas)
	return !errors.Is(err, lb.ErrMismatch)
}

// finish ends a call.
func (c *client) finish(now time.Duration, k *call, v Value, err error) {
	k.over = true
	wasOpen := c.breaker.open
	if err == nil {
		c.breaker.succeeded(now, k.probe)
	} else {
		c.breaker.failed(now)
		if k.home != nil {
			k.home.node = "" // it may have moved again
		}
	}
	k.done(now, v, err)
	if c.breaker.open && !wasOpen {
		c.abandon(now)
	}
}

// abandon fails all that waits: the breaker has opened, and what is on its way will hardly be answered.
func (c *client) abandon(now time.Duration) {
	for _, k := range c.pending {
		if !k.over && !k.probe {
			c.finish(now, k, Value{}, ErrTimeout)
		}
	}
}

// postpone moves all deadlines, each once: for so long nobody could have seen an answer.
func (c *client) postpone(d time.Duration) {
	for _, k := range c.pending {
		if !k.late {
			k.late = true
			k.until += d
		}
	}
}

// expire fails the calls whose time is over, and returns the earliest deadline of the others, 0 when there are none.
func (c *client) expire(now time.Duration) time.Duration {
	for _, k := range c.pending {
		if !k.over && now >= k.until {
			c.finish(now, k, Value{}, ErrTimeout)
		}
	}
	c.pending = slices.DeleteFunc(c.pending, func(k *call) bool { return k.over })
	next := time.Duration(0)
	for _, k := range c.pending {
		if next == 0 || k.until < next {
			next = k.until
		}
	}
	return next
}
