package request

import (
	"cmp"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/host"
)

// Session is what tells the requests of one session from others.
type Session struct {
	Key    uint64 // digest of its key, 0 for none
	Next   int    // number of the first source that was not looked at
	Result string // what has become of the request: AtHome, Displaced or NoSession, "" before
}

// Find looks for the key of the session of a request, in the order of the configuration's sources, up to the first one
// that has it. While the body may still come, it stops in front of a source there. Without a body, body is nil.
func (ss *Session) Find(s host.GatewayStream, t *Traits, c *config.Config, body []byte, complete bool) {
	if !c.ReadsSession() {
		return
	}
	t.Read(s)
	for ss.Next < len(c.Session) {
		text, sources := "", c.Session[ss.Next:]
		n := 1 + slices.IndexFunc(sources[1:], func(source config.SessionSource) bool {
			return source.From != config.FromBody
		})
		switch {
		case sources[0].From != config.FromBody:
			text, n = t.sessionText(s, &sources[0]), 1
		case !complete:
			return
		case n == 0:
			text, n = textInBody(body, sources), len(sources)
		default:
			text = textInBody(body, sources[:n])
		}
		if ss.Next += n; text != "" {
			ss.Key, ss.Next = cmp.Or(xxhash.Sum64String(text), 1), len(c.Session)
		}
	}
}

// textInBody returns the text of the first of the sources in the body that it has, in one pass over it.
func textInBody(body []byte, sources []config.SessionSource) string {
	paths := make([][]string, len(sources))
	for i := range sources {
		paths[i] = sources[i].Path
	}
	text, _ := prompt.MemberText(body, paths...)
	return text
}

// mayBeInBody reports whether the key may be in the body, after all that is in front of it was looked at: not in one
// that is no JSON.
func (ss *Session) mayBeInBody(t *Traits, c *config.Config) bool {
	return c.ReadsSession() && ss.Next < len(c.Session) && !t.notJSON
}

// sessionText returns the text of a source outside of the body, "" for none.
func (t *Traits) sessionText(s host.GatewayStream, source *config.SessionSource) string {
	switch source.From {
	case config.FromHeader:
		return t.Value(source.Name)
	case config.FromCookie:
		return t.cookie(source.Name)
	case config.FromQuery:
		return t.query(source.Name)
	}
	return config.Network(s.Client())
}

// cookie returns the value of a cookie, "" if there is none. HTTP/2 allows several headers for them.
func (t *Traits) cookie(name string) string {
	for _, h := range t.Headers {
		if h[0] != "cookie" {
			continue
		}
		for rest := h[1]; rest != ""; {
			var pair string
			pair, rest, _ = strings.Cut(rest, ";")
			if k, v, ok := strings.Cut(strings.TrimSpace(pair), "="); ok && k == name && v != "" {
				return v
			}
		}
	}
	return ""
}

// query returns the value of a query parameter as it is written, "" if there is none.
func (t *Traits) query(name string) string {
	_, rest, _ := strings.Cut(t.Value(":path"), "?")
	for rest != "" {
		var pair string
		pair, rest, _ = strings.Cut(rest, "&")
		if k, v, ok := strings.Cut(pair, "="); ok && k == name && v != "" {
			return v
		}
	}
	return ""
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
