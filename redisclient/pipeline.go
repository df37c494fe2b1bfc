package redisclient

import (
	"errors"
	"strconv"
	"time"
)

// Call opens a connection to a Redis server, sends body, and calls done with all that comes back before the server closes
// the connection. node is a cluster node as ip:port, "" the configured server. done is called at most once.
type Call func(now time.Duration, node string, body []byte, done Done)

// Login is how a connection begins.
type Login struct {
	Username string // "" for the default user
	Password string // "" for none
	Database int
}

// String hides the password, so that a Login printed by mistake shows none.
func (l Login) String() string { return "database " + strconv.Itoa(l.Database) }

// GoString is String, for the same reason.
func (l Login) GoString() string { return l.String() }

// batchMost is how many commands travel together. Replies of a connection that is closed after the last command must fit
// into a socket's buffer.
const batchMost = 256

// Pipeline is a [Redirector] over calls that cost a connection each. Commands that are given while a call is under way
// travel together in the next one, so that load makes them cheaper. A call ends with a PING: without its answer the
// replies were cut off.
type Pipeline struct {
	login   []byte
	replies int  // of the login
	selects bool // the last of them is SELECT's
	timeout time.Duration
	call    Call
	nodes   map[string]*queue
}

var _ Redirector = (*Pipeline)(nil)

// queue is what waits for one node.
type queue struct {
	waiting []command
	flying  []command
	until   time.Duration // when the call under way is given up
	late    bool          // that was moved
	round   int           // counts the calls, so that late answers are told from the present one's
}

type command struct {
	asking bool
	cmd    []byte
	done   Done
}

// NewPipeline returns a pipeline over the call. A call without an answer within the timeout has failed.
func NewPipeline(l Login, timeout time.Duration, call Call) *Pipeline {
	p := &Pipeline{timeout: timeout, call: call, nodes: map[string]*queue{}}
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
		q = &queue{}
		p.nodes[node] = q
	}
	q.waiting = append(q.waiting, command{asking, cmd, done})
	if q.flying == nil {
		p.fly(now, node, q)
	}
}

// fly sends what waits.
func (p *Pipeline) fly(now time.Duration, node string, q *queue) {
	n := min(len(q.waiting), batchMost)
	q.flying = q.waiting[:n:n]
	q.waiting = q.waiting[n:]
	body := append([]byte(nil), p.login...)
	for _, c := range q.flying {
		if c.asking {
			body = AppendCommand(body, "ASKING")
		}
		body = append(body, c.cmd...)
	}
	body = AppendCommand(body, "PING")
	q.until, q.late = now+p.timeout, false
	q.round++
	round := q.round
	p.call(now, node, body, func(now time.Duration, reply []byte, err error) {
		if q.flying != nil && q.round == round {
			p.land(now, node, q, reply, err)
		}
	})
}

// land gives every command its reply, and sends what has come meanwhile. When the call failed, what waits behind it has
// waited for as long as a call may take, and fails as well.
func (p *Pipeline) land(now time.Duration, node string, q *queue, reply []byte, err error) {
	landed := q.flying
	q.flying = nil
	if err != nil {
		landed = append(landed, q.waiting...)
		q.waiting = nil
		for _, c := range landed {
			c.done(now, nil, err)
		}
	} else {
		p.share(now, landed, reply)
	}
	switch {
	case q.flying != nil: // an answer has led to a new command, which is on its way
	case len(q.waiting) > 0:
		p.fly(now, node, q)
	case node != "":
		delete(p.nodes, node)
	}
}

// share cuts the replies of a call apart.
func (p *Pipeline) share(now time.Duration, cmds []command, reply []byte) {
	parts, err := split(reply)
	elsewhere := p.selects && len(parts) >= p.replies && parts[p.replies-1][0] == byte(Failed)
	at := p.replies
	for _, c := range cmds {
		if c.asking {
			at++
		}
		switch {
		case elsewhere:
			// The commands ran in another database than the one that was asked for.
			c.done(now, parts[p.replies-1], nil)
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

// split cuts replies apart. What cannot be read, and all behind it, is an error; half a reply at the end is none.
func split(b []byte) (parts [][]byte, err error) {
	for len(b) > 0 {
		_, rest, err := Parse(b)
		switch {
		case errors.Is(err, ErrShort):
			return parts, nil
		case err != nil:
			return parts, err
		}
		parts = append(parts, b[:len(b)-len(rest):len(b)-len(rest)])
		b = rest
	}
	return parts, nil
}

// Postpone moves all deadlines, each once, as [Store.Postpone] does.
func (p *Pipeline) Postpone(d time.Duration) {
	for _, q := range p.nodes {
		if !q.late {
			q.late = true
			q.until += d
		}
	}
}

// Expire gives up calls without an answer, and returns the earliest deadline still to come, 0 for none.
func (p *Pipeline) Expire(now time.Duration) (next time.Duration) {
	for node, q := range p.nodes {
		if q.flying != nil && now >= q.until {
			p.land(now, node, q, nil, ErrTimeout)
		}
	}
	for _, q := range p.nodes {
		if q.flying != nil && (next == 0 || q.until < next) {
			next = q.until
		}
	}
	return next
}
