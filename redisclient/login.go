package redisclient

import (
	"bytes"
	"strconv"
	"time"
)

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

// commands returns the commands of the login, and how many they are: none for the default user without a password and
// database 0.
func (l Login) commands() (b []byte, n int) {
	switch {
	case l.Username != "":
		b = AppendCommand(b, "AUTH", l.Username, l.Password)
		n++
	case l.Password != "":
		b = AppendCommand(b, "AUTH", l.Password)
		n++
	}
	if l.Database != 0 {
		b = AppendCommand(b, "SELECT", strconv.Itoa(l.Database))
		n++
	}
	return b, n
}

// loginError returns the refusal of a login, nil for none. What follows on such a connection Redis carries out all the
// same, as its user default or in another database: so nothing may follow. replies are those to its commands, so far.
func (l *Login) loginError(replies [][]byte) *ReplyError {
	for i, reply := range replies {
		if reply[0] != byte(ErrorReply) {
			continue
		}
		err := newReplyError(reply[1:])
		if err.Login = "AUTH"; i > 0 || l.Username == "" && l.Password == "" {
			err.Login = "SELECT"
		}
		return err
	}
	return nil
}

// checkPeriod is how long a login is believed in, and how long an answer to one is waited for.
const checkPeriod = time.Second

// Checked is a [Transport] over one that connects and logs in by itself, without telling how that went. So it sends the
// login there once more, and reads the answer: before the first command; after each failure, which may be the end of a
// connection; after each answer that asks for a login; and once a second while it is used, since a connection may be
// replaced unseen. Commands wait until the login was accepted, and fail if it was not.
type Checked struct {
	next     Transport
	user     Login
	loggedIn bool // by the latest answer
	asking   bool // a login is under way
	round    int  // counts the logins, so that a late answer to an earlier one is recognized
	askedAt  time.Duration
	used     bool // commands came since then
	waiting  []command
}

// NewChecked returns a transport over next.
func NewChecked(next Transport, l Login) *Checked { return &Checked{next: next, user: l} }

// Use changes the login. Commands that wait for the answer to another one fail.
func (c *Checked) Use(now time.Duration, l Login) {
	c.user = l
	c.answered(now, ErrUnreachable)
}

// Do implements [Transport].
func (c *Checked) Do(now time.Duration, cmd []byte, done Done) {
	c.used = true
	if c.loggedIn || c.user == (Login{}) {
		c.forward(now, cmd, done)
		return
	}
	c.waiting = append(c.waiting, command{cmd: cmd, done: done})
	if !c.asking {
		c.ask(now)
	}
}

// forward sends a command of a connection that is logged in.
//
//go:noinline
func (c *Checked) forward(now time.Duration, cmd []byte, done Done) {
	c.next.Do(now, cmd, func(now time.Duration, reply []byte, err error) {
		if err != nil || bytes.HasPrefix(reply, []byte("-NOAUTH")) {
			c.loggedIn = false
		}
		done(now, reply, err)
	})
}

// Check logs in again if it is time to, and gives up a login that was not answered. It is to be called now and then.
func (c *Checked) Check(now time.Duration) {
	switch {
	case now-c.askedAt < checkPeriod:
	case c.asking:
		c.answered(now, ErrTimeout)
	case c.loggedIn && c.used:
		c.ask(now)
	}
}

// ask sends the login.
func (c *Checked) ask(now time.Duration) {
	c.asking, c.askedAt, c.used = true, now, false
	c.round++
	round, replies := c.round, [][]byte(nil)
	login, n := c.user.commands()
	for range n {
		_, rest, _ := Parse(login)
		c.next.Do(now, login[:len(login)-len(rest)], func(now time.Duration, reply []byte, err error) {
			if len(reply) == 0 && err == nil {
				err = ErrGarbage
			}
			if err == nil {
				replies = append(replies, reply)
				if refused := c.user.loginError(replies); refused != nil {
					err = refused
				}
			}
			if round == c.round && c.asking && (err != nil || len(replies) == n) {
				c.answered(now, err)
			}
		})
		login = rest
	}
}

// answered ends a login.
func (c *Checked) answered(now time.Duration, err error) {
	c.asking, c.loggedIn = false, err == nil
	waiting := c.waiting
	c.waiting = nil
	for _, w := range waiting {
		if err != nil {
			w.done(now, nil, err)
		} else {
			c.forward(now, w.cmd, w.done)
		}
	}
}
