package config

import (
	"slices"
	"strconv"
	"strings"

	"github.com/warmgate/warmgate/lb/policy"
	"github.com/warmgate/warmgate/lb/setting"
)

// placeNames are the names of the parts in the configuration; all but the last are followed by a colon and a name.
var placeNames = []string{
	FromHeader: "header", FromCookie: "cookie", FromQuery: "query", FromBody: "body", FromClient: "client_address",
}

// ReadsSession reports whether the key of a request's session is read.
func (c *Config) ReadsSession() bool { return c.PlacesSessions() || c.QueuesSessions() }

// QueuesSessions reports whether sessions take turns while requests wait.
func (c *Config) QueuesSessions() bool { return c.Queue.Enabled() && c.Queue.FairBy == BySession }

// PlacesSessions reports whether where a request goes may follow from its session.
func (c *Config) PlacesSessions() bool {
	use := c.needs().Session
	return use == policy.SessionRequired || use == policy.SessionOptional && c.Prefix.SessionAffinity
}

const (
	maxSources      = 16 // sources of keys
	maxSourceLength = 256
	maxPath         = 8 // names in the path of a member

	wantSource = `, want "header:NAME", "cookie:NAME", "query:NAME", "body:NAME" or "client_address"`
)

// setSessionKey reads ["header:x-session-id", "body:metadata.user_id"].
func setSessionKey(p *parser, c *Config, at string, v value) {
	if v.kind != kindArray || len(v.items) == 0 || len(v.items) > maxSources {
		p.badValue(at, v, `, want a list of 1 to `+strconv.Itoa(maxSources)+` like ["header:x-session-id", "body:user"]`)
		return
	}
	c.Session = nil
	for i, item := range v.items {
		place := at + "[" + strconv.Itoa(i) + "]"
		s, ok := sessionSource(item)
		if !ok {
			p.bad(place, got(item)+wantSource+DidYouMean(item.text, placeNames))
			continue
		}
		same := func(other SessionSource) bool {
			return s.From == other.From && s.Name == other.Name && slices.Equal(s.Path, other.Path)
		}
		if slices.ContainsFunc(c.Session, same) {
			p.bad(place, got(item)+" twice")
			continue
		}
		c.Session = append(c.Session, s)
	}
}

// sessionSource reads one source.
func sessionSource(v value) (s SessionSource, ok bool) {
	if v.kind != kindString || len(v.text) > maxSourceLength {
		return s, false
	}
	place, name, named := strings.Cut(strings.Clone(v.text), ":")
	i := slices.Index(placeNames, place)
	if i < 0 || named == (SessionPlace(i) == FromClient) || named && name == "" {
		return s, false
	}
	s.From = SessionPlace(i)
	switch s.From {
	case FromBody:
		s.Path = strings.Split(name, ".")
		return s, len(s.Path) <= maxPath && !slices.Contains(s.Path, "")
	case FromHeader:
		s.Name = strings.ToLower(name)
	default:
		s.Name = name
	}
	return s, !strings.ContainsAny(name, " \t;,=&")
}

// checkSession merges Higress's name for a source of keys.
func (pt *part) checkSession() {
	if pt.needs().Session == policy.SessionOptional && !pt.ReadsSession() {
		pt.idle([]string{keySession}, "has no effect without session_affinity: true or queue.fair_by session")
	}
	if pt.hashHeader == "" {
		return
	}
	if pt.written[keySession] {
		pt.badKey(keySession, "got both session.key and hash_header, want one of them")
		return
	}
	s, ok := sessionSource(value{kind: kindString, text: placeNames[FromHeader] + ":" + pt.hashHeader})
	if !ok {
		pt.badKey(keyHashHeader, "got "+setting.Quote(pt.hashHeader)+", want the name of a header")
		return
	}
	pt.Session = []SessionSource{s}
}
