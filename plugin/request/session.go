package request

import (
	"cmp"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/host"
)

// Session is what tells the requests of one session from others.
type Session struct {
	Key    uint64 // digest of its key, 0 for none
	Result string // what has become of the request: AtHome, Displaced or NoSession, "" before
	lookup Lookup // of its key
}

// find looks for the key of the session of a request, in the order of the configuration's sources. While the body may
// still come, it stops in front of a source there. Without a body, body is nil.
func (ss *Session) find(s host.GatewayStream, t *Traits, c *config.Config, body []byte, complete bool) {
	if !c.ReadsSession() {
		return
	}
	ss.lookup.find(s, t, c.Session, body, complete)
	if text := ss.lookup.Text; text != "" {
		ss.Key = cmp.Or(xxhash.Sum64String(text), 1)
	}
}

// mayBeInBody reports whether the key may be in the body.
func (ss *Session) mayBeInBody(t *Traits, c *config.Config) bool {
	return c.ReadsSession() && ss.lookup.mayBeInBody(t, c.Session)
}

// What has become of a request whose session matters.
const (
	AtHome    = "home"      // it was placed where the session belongs
	Displaced = "displaced" // its home was too busy, or full, or had less of the prompt
	NoSession = "none"      // it has no key
)

// AppendText appends what has become of the request to a line of the access log, where sessions matter.
func (ss *Session) AppendText(line []byte) []byte {
	if ss.Result == "" {
		return line
	}
	return append(append(line, " session="...), ss.Result...)
}

// SessionID returns a number that is the same for all requests of a session, 0 for none. It does not show the key, not
// even to who can guess that.
func (s *Subject) SessionID() uint32 {
	if s.Session.Key == 0 {
		return 0
	}
	return prompt.Disguise(s.prompts.secret(s.Config), s.Session.Key)
}
