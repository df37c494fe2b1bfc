package redisclient

import (
	"errors"
	"strconv"
	"time"
)

// RoundTrip opens a connection to a Redis server, sends body, and calls done with everything that the server sends
// until it closes the connection. node is a cluster node as ip:port, "" the configured server. done is called at most
// once.
type RoundTrip func(now time.Duration, node string, body []byte, done Done)

// Login is what a connection begins with: authentication and the choice of a database.
type Login struct {
	Username string // "" for the default user
	Password string // "" for none
	Database int
}

// String hides the password, so that a Login printed by mistake shows none.
func (l Login) String() string { return "database " + strconv.Itoa(l.Database) }

// GoString is String, for the same reason.
func (l Login) GoString() string { return l.String() }

// maxBatch is how many commands one round trip carries. The connection is closed for writing after the last command, so
// their replies must fit into a socket's buffer.
const maxBatch = 256

// Pipeline is a [Redirector] over round trips that need a connection each. Commands that arrive during a round trip
// share the next one, so a command costs less under load. A round trip ends with a PING: if its reply is missing, the
// replies are incomplete.
type Pipeline struct {
	login     []byte
	replies   int  // to the login
	selects   bool // the last of them is the reply to SELECT
	timeout   time.Duration
	roundTrip RoundTrip
	nodes     map[string]*nodeQueue
}

var _ Redirector = (*Pipeline)(nil)

// nodeQueue is the commands for one node.
type nodeQueue struct {
	waiting   []command
	sent      []command     // in the present round trip, nil if there is none
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
	p := &Pipeline{timeout: timeout, roundTrip: roundTrip, nodes: map[string]*nodeQueue{}}
	switch {
	case l.Username != "":
		p.login = AppendCommand(p.login, "AUTH", l.Username, l.Password)
		p.replies++
	case l.Password != "":
		p.login = AppendCommand(p.login, "AUTH", l.Password)
		p.replies++
	}
	if l.Database != 0 {
		p.login = AppendCommand(p.login, "SELECT", strconv.Itoa(l.Database))
		p.replies++
		p.selects = true
	}
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
	if q.sent == nil {
		p.flush(now, node, q)
	}
}

// flush begins a round trip with the commands that wait, up to maxBatch of them.
func (p *Pipeline) flush(now time.Duration, node string, q *nodeQueue) {
	n := min(len(q.waiting), maxBatch)
	q.sent = q.waiting[:n:n]
	q.waiting = q.waiting[n:]
	body := append([]byte(nil), p.login...)
	for _, c := range q.sent {
		if c.asking {
			body = AppendCommand(body, "ASKING")
		}
		body = append(body, c.cmd...)
	}
	body = AppendCommand(body, "PING")
	q.deadline, q.postponed = now+p.timeout, false
	q.trip++
	round := q.trip
	p.roundTrip(now, node, body, func(now time.Duration, reply []byte, err error) {
		if q.sent != nil && q.trip == round {
			p.finish(now, node, q, reply, err)
		}
	})
}

// finish ends a round trip: it gives every command its reply, and begins the next one if commands are waiting. If the
// round trip failed, the waiting commands fail too, since they may have waited for as long as a round trip may take.
func (p *Pipeline) finish(now time.Duration, node string, q *nodeQueue, reply []byte, err error) {
	answered := q.sent
	q.sent = nil
	if err != nil {
		answered = append(answered, q.waiting...)
		q.waiting = nil
		for _, c := range answered {
			c.done(now, nil, err)
		}
	} else {
		p.distribute(now, answered, reply)
	}
	switch {
	case q.sent != nil: // a reply led to a new command, which has begun the next round trip
	case len(q.waiting) > 0:
		p.flush(now, node, q)
	case node != "":
		delete(p.nodes, node)
	}
}

// distribute gives each command its part of the replies. Commands without one fail.
func (p *Pipeline) distribute(now time.Duration, cmds []command, reply []byte) {
	parts, err := splitReplies(reply)
	wrongDatabase := p.selects && len(parts) >= p.replies && parts[p.replies-1][0] == byte(ErrorReply)
	at := p.replies
	for _, c := range cmds {
		if c.asking {
			at++
		}
		switch {
		case wrongDatabase:
			c.done(now, parts[p.replies-1], nil) // the error reply to SELECT
		case at < len(parts):
			c.done(now, parts[at], nil)
		case err != nil:
			c.done(now, nil, err)
		default:
			c.done(now, nil, ErrUnreachable)
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
		if q.sent != nil && now >= q.deadline {
			p.finish(now, node, q, nil, ErrTimeout)
		}
	}
	for _, q := range p.nodes {
		if q.sent != nil && (next == 0 || q.deadline < next) {
			next = q.deadline
		}
	}
	return next
}
