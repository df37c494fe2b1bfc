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
	maxSources      = 16 // places of one text
	maxSourceLength = 256
	maxPath         = 8 // names in the path of a member

	wantSource = `, want "header:NAME", "cookie:NAME", "query:NAME", "body:NAME" or "client_address"`
)

// sources returns a setter of places in a request, like ["header:x-session-id", "body:metadata.user_id"].
func sources(field func(*Config) *[]Source) setter {
	return func(p *parser, c *Config, at string, v value) { p.sources(field(c), at, v) }
}

func (p *parser) sources(into *[]Source, at string, v value) {
	if v.kind != kindArray || len(v.items) == 0 || len(v.items) > maxSources {
		p.badValue(at, v, `, want a list of 1 to `+strconv.Itoa(maxSources)+` like ["header:x-session-id", "body:user"]`)
		return
	}
	*into = nil
	for i, item := range v.items {
		place := at + "[" + strconv.Itoa(i) + "]"
		s, ok := readSource(item)
		if !ok {
			p.bad(place, got(item)+wantSource+DidYouMean(item.text, placeNames))
			continue
		}
		same := func(other Source) bool {
			return s.From == other.From && s.Name == other.Name && slices.Equal(s.Path, other.Path)
		}
		if slices.ContainsFunc(*into, same) {
			p.bad(place, got(item)+" twice")
			continue
		}
		*into = append(*into, s)
	}
}

// readSource reads one of them.
func readSource(v value) (s Source, ok bool) {
	if v.kind != kindString || len(v.text) > maxSourceLength {
		return s, false
	}
	place, name, named := strings.Cut(strings.Clone(v.text), ":")
	i := slices.Index(placeNames, place)
	if i < 0 || named == (SourceKind(i) == FromClient) || named && name == "" {
		return s, false
	}
	s.From = SourceKind(i)
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
	s, ok := readSource(value{kind: kindString, text: placeNames[FromHeader] + ":" + pt.hashHeader})
	if !ok {
		pt.badKey(keyHashHeader, "got "+setting.Quote(pt.hashHeader)+", want the name of a header")
		return
	}
	pt.Session = []Source{s}
}
