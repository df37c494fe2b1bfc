package redisclient_test

import (
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/redisclient"
)

// checkedStep is a step of TestChecked: something happens, then so many commands were sent.
type checkedStep struct {
	at   time.Duration
	what string // "do", "check", "use", or the reply to the oldest command without one; "lost" if there is none
	sent string // in all, by first words
	ends string // of the commands, so far
}

var checkedSteps = map[string][]checkedStep{
	"accepted": {
		{0, "do", "AUTH SELECT", ""},
		{0, "do", "AUTH SELECT", ""},
		{1, okReply, "AUTH SELECT", ""},
		{1, okReply, "AUTH SELECT GET GET", ""},
		{2, ":1\r\n", "AUTH SELECT GET GET", "reply"},
		{2, ":1\r\n", "AUTH SELECT GET GET", "reply reply"},
		{2, "do", "AUTH SELECT GET GET GET", "reply reply"},
	},
	"refused, then accepted": {
		{0, "do", "AUTH SELECT", ""},
		{1, wrongPass, "AUTH SELECT", "auth"},
		{1, "do", "AUTH SELECT AUTH SELECT", "auth"},
		{1, okReply, "AUTH SELECT AUTH SELECT", "auth"}, // to the first SELECT
		{1, okReply, "AUTH SELECT AUTH SELECT", "auth"},
		{1, okReply, "AUTH SELECT AUTH SELECT GET", "auth"},
	},
	"no such database": {
		{0, "do", "AUTH SELECT", ""},
		{1, okReply, "AUTH SELECT", ""},
		{1, noIndex, "AUTH SELECT", "auth"},
	},
	"looked at each second": {
		{0, "do", "AUTH SELECT", ""},
		{0, okReply, "AUTH SELECT", ""},
		{0, okReply, "AUTH SELECT GET", ""},
		{0, ":1\r\n", "AUTH SELECT GET", "reply"},
		{999, "check", "AUTH SELECT GET", "reply"},
		{1000, "check", "AUTH SELECT GET", "reply"}, // no command since
		{1500, "do", "AUTH SELECT GET GET", "reply"},
		{1500, "check", "AUTH SELECT GET GET AUTH SELECT", "reply"},
		{1500, "do", "AUTH SELECT GET GET AUTH SELECT GET", "reply"}, // none waits for that
		{1501, ":1\r\n", "AUTH SELECT GET GET AUTH SELECT GET", "reply reply"},
		{1501, wrongPass, "AUTH SELECT GET GET AUTH SELECT GET", "reply reply"},
		{1501, "do", "AUTH SELECT GET GET AUTH SELECT GET AUTH SELECT", "reply reply"},
	},
	"a connection ends": {
		{0, "do", "AUTH SELECT", ""},
		{0, okReply, "AUTH SELECT", ""},
		{0, okReply, "AUTH SELECT GET", ""},
		{0, "lost", "AUTH SELECT GET", "unreachable"},
		{0, "do", "AUTH SELECT GET AUTH SELECT", "unreachable"},
		{0, "lost", "AUTH SELECT GET AUTH SELECT", "unreachable unreachable"},
	},
	"another connection": {
		{0, "do", "AUTH SELECT", ""},
		{0, okReply, "AUTH SELECT", ""},
		{0, okReply, "AUTH SELECT GET", ""},
		{0, noAuth, "AUTH SELECT GET", "reply"},
		{0, "do", "AUTH SELECT GET AUTH SELECT", "reply"},
	},
	"another login": {
		{0, "do", "AUTH SELECT", ""},
		{0, "use", "AUTH SELECT", "unreachable"},
		{0, okReply, "AUTH SELECT", "unreachable"}, // to the old one
		{0, okReply, "AUTH SELECT", "unreachable"},
		{0, "do", "AUTH SELECT AUTH", "unreachable"},
		{0, wrongPass, "AUTH SELECT AUTH", "unreachable auth"},
	},
	"no answer": {
		{0, "do", "AUTH SELECT", ""},
		{999, "check", "AUTH SELECT", ""},
		{1000, "check", "AUTH SELECT", "timeout"},
		{1000, "do", "AUTH SELECT AUTH SELECT", "timeout"},
		{1001, okReply, "AUTH SELECT AUTH SELECT", "timeout"}, // late ones
		{1001, okReply, "AUTH SELECT AUTH SELECT", "timeout"},
		{1001, okReply, "AUTH SELECT AUTH SELECT", "timeout"},
		{1001, okReply, "AUTH SELECT AUTH SELECT GET", "timeout"},
	},
}

// On a connection that the gateway has logged in, unseen, no command is sent before the login was accepted.
func TestChecked(t *testing.T) {
	for name, steps := range checkedSteps {
		t.Run(name, func(t *testing.T) {
			var m manualTransport
			c := redisclient.NewChecked(&m, redisclient.Login{Username: "u", Password: "p", Database: 3})
			var ends answers
			oldest := 0
			for i, s := range steps {
				now := s.at * time.Millisecond
				switch s.what {
				case "do":
					c.Do(now, []byte(get), func(_ time.Duration, _ []byte, err error) {
						ends = append(ends, map[bool]string{true: "reply", false: redisclient.Cause(err)}[err == nil])
					})
				case "check":
					c.Check(now)
				case "use":
					c.Use(now, redisclient.Login{Username: "u", Password: "other"})
				case "lost":
					oldest++
					m.done[oldest-1](now, nil, redisclient.ErrUnreachable)
				default:
					oldest++
					m.answer(now, oldest-1, s.what)
				}
				if got := strings.Join(m.sent, " "); got != s.sent {
					t.Fatalf("step %d: sent %q, want %q", i, got, s.sent)
				}
				if got := strings.Join(ends, " "); got != s.ends {
					t.Fatalf("step %d: ended with %q, want %q", i, got, s.ends)
				}
			}
		})
	}
	var m manualTransport // without a login there is nothing to see
	c := redisclient.NewChecked(&m, redisclient.Login{})
	c.Do(0, []byte(get), func(time.Duration, []byte, error) {})
	c.Check(time.Hour)
	m.wantSent(t, "GET")
}
