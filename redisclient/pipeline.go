package redisclient

import (
	"errors"
	"time"
)

// RoundTrip opens a connection to a Redis server, sends body, and calls done with everything that the server sends
// until it closes the connection. node is a cluster node as ip:port, "" the configured server. done is called at most
// once.
type RoundTrip func(now time.Duration, node string, body []byte, done Done)

// maxBatch is how many commands one round trip carries. The connection is closed for writing after the last command, so
// their replies must fit into a socket's buffer.
const maxBatch = 256

// maxNodes is for how many nodes it is remembered that they accept the login.
const maxNodes = 256

// Pipeline is a [Redirector] over round trips that need a connection each. Commands that arrive during a round trip
// share the next one, so a command costs less under load. A round trip ends with a PING: if its reply is missing, the
// replies are incomplete.
//
// Each round trip begins with the login. What follows would be carried out also if that is refused, so none follows
// until a node has accepted it, in a round trip of its own, nor after one that has failed.
type Pipeline struct {
	user      Login
	login     []byte
	replies   int // to the login
	timeout   time.Duration
	roundTrip RoundTrip
	nodes     map[string]*nodeQueue
}

var _ Redirector = (*Pipeline)(nil)

// nodeQueue is the commands for one node.
type nodeQueue struct {
	waiting   []command
	busy      bool          // there is a round trip
	sent      []command     // in it; none if it only logs in
	replies   int           // that complete it, with those to the login and to the PING
	loggedIn  bool          // the latest one was complete, and its login accepted
	deadline  time.Duration // of the present round trip
	postponed bool          // the deadline was moved
	trip      int           // counts the round trips, so that a late answer to an earlier one is recognized
}

// command is a command and what receives its reply.
type command struct {
	asking bool
	cmd    []byte
	done   Done
}

// NewPipeline returns a pipeline over roundTrip. A round trip without an answer within the timeout has failed.
func NewPipeline(l Login, timeout time.Duration, roundTrip RoundTrip) *Pipeline {
	p := &Pipeline{user: l, timeout: timeout, roundTrip: roundTrip, nodes: map[string]*nodeQueue{}}
	p.login, p.replies = l.commands()
	return p
}

// Do implements [Transport].
func (p *Pipeline) Do(now time.Duration, cmd []byte, done Done) { p.DoAt(now, "", false, cmd, done) }

// DoAt implements [Redirector].
func (p *Pipeline) DoAt(now time.Duration, node string, asking bool, cmd []byte, done Done) {
	q := p.nodes[node]
	if q == nil {
		q = &nodeQueue{}
		p.nodes[node] = q
	}
	q.waiting = append(q.waiting, command{asking, cmd, done})
	if !q.busy {
		p.flush(now, node, q)
	}
}

// flush begins a round trip with the commands that wait, up to maxBatch of them, or with the login alone.
func (p *Pipeline) flush(now time.Duration, node string, q *nodeQueue) {
	n := min(len(q.waiting), maxBatch)
	if p.replies > 0 && !q.loggedIn {
		n = 0
	}
	q.sent, q.busy = q.waiting[:n:n], true
	q.waiting = q.waiting[n:]
	body := append([]byte(nil), p.login...)
	q.replies = p.replies + n + 1
	for _, c := range q.sent {
		if c.asking {
			body = AppendCommand(body, "ASKING")
			q.replies++
		}
		body = append(body, c.cmd...)
	}
	body = AppendCommand(body, "PING")
	q.deadline, q.postponed = now+p.timeout, false
	q.trip++
	round := q.trip
	p.roundTrip(now, node, body, func(now time.Duration, reply []byte, err error) {
		if q.busy && q.trip == round {
			p.finish(now, node, q, reply, err)
		}
	})
}

// finish ends a round trip: it gives every command its reply, and begins the next one if commands are waiting. If the
// round trip failed, or its login, the waiting commands fail too, since they may have waited for as long as a round
// trip may take.
func (p *Pipeline) finish(now time.Duration, node string, q *nodeQueue, reply []byte, err error) {
	answered := q.sent
	q.sent, q.busy = nil, false
	parts, cut := splitReplies(reply)
	if cut == nil {
		cut = ErrUnreachable
	}
	complete := len(parts) >= q.replies
	refused := p.user.loginError(parts[:min(len(parts), p.replies)])
	switch {
	case err != nil:
	case refused != nil && (complete || refused.Code != "ERR"):
		err = refused
	case refused != nil, len(parts) < p.replies, !complete && len(answered) == 0:
		err = cut // with refused: a server that has too many clients says so with ERR, and closes the connection
	}
	q.loggedIn = err == nil && complete
	if err != nil {
		answered = append(answered, q.waiting...)
		q.waiting = nil
		for _, c := range answered {
			c.done(now, nil, err)
		}
	} else {
		distribute(now, answered, parts[p.replies:], cut)
	}
	switch {
	case q.busy: // a reply led to a new command, which has begun the next round trip
	case len(q.waiting) > 0:
		p.flush(now, node, q)
	case node != "" && (p.replies == 0 || len(p.nodes) > maxNodes):
		delete(p.nodes, node)
	}
}

// distribute gives each command its part of the replies. Commands without one fail, for the reason cut.
func distribute(now time.Duration, cmds []command, parts [][]byte, cut error) {
	at := 0
	for _, c := range cmds {
		if c.asking {
			at++
		}
		if at < len(parts) {
			c.done(now, parts[at], nil)
		} else {
			c.done(now, nil, cut)
		}
		at++
	}
}

// splitReplies splits b into replies. An incomplete reply at the end is left out. If something cannot be parsed, the
// replies before it are returned with an error.
func splitReplies(b []byte) (parts [][]byte, err error) {
	for len(b) > 0 {
		_, rest, err := Parse(b)
		switch {
		case errors.Is(err, ErrIncomplete):
			return parts, nil
		case err != nil:
			return parts, err
		}
		parts = append(parts, b[:len(b)-len(rest):len(b)-len(rest)])
		b = rest
	}
	return parts, nil
}

// Postpone moves every deadline by d, but each deadline only once, as [Store.Postpone] does.
func (p *Pipeline) Postpone(d time.Duration) {
	for _, q := range p.nodes {
		if !q.postponed {
			q.postponed = true
			q.deadline += d
		}
	}
}

// Expire fails the round trips whose deadlines have passed. It returns the earliest deadline of the others, 0 if there
// are none.
func (p *Pipeline) Expire(now time.Duration) (next time.Duration) {
	for node, q := range p.nodes {
		if q.busy && now >= q.deadline {
			p.finish(now, node, q, nil, ErrTimeout)
		}
	}
	for _, q := range p.nodes {
		if q.busy && (next == 0 || q.deadline < next) {
			next = q.deadline
		}
	}
	return next
}
