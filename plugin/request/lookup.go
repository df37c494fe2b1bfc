package request

import (
	"slices"
	"strings"

	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/host"
)

// Lookup looks for a text in several places of a request, in their order, up to the first one that has it.
type Lookup struct {
	Text string // "" for none so far
	Next int    // number of the first place that was not looked at
}

// find looks in the places. While the body may still come, it stops in front of one there. Without a body, body is nil.
func (l *Lookup) find(s host.GatewayStream, t *Traits, in []config.Source, body []byte, complete bool) {
	for l.Next < len(in) {
		t.Read(s)
		text, sources := "", in[l.Next:]
		n := 1 + slices.IndexFunc(sources[1:], func(source config.Source) bool {
			return source.From != config.FromBody
		})
		switch {
		case sources[0].From != config.FromBody:
			text, n = t.sourceText(s, &sources[0]), 1
		case !complete:
			return
		case n == 0:
			text, n = textInBody(body, sources), len(sources)
		default:
			text = textInBody(body, sources[:n])
		}
		if l.Next += n; text != "" {
			l.Text, l.Next = text, len(in)
		}
	}
}

// mayBeInBody reports whether the text may be in the body, after all that is in front of it was looked at: not in one
// that is no JSON.
func (l *Lookup) mayBeInBody(t *Traits, in []config.Source) bool {
	return l.Next < len(in) && !t.notJSON
}

// textInBody returns the text of the first of the sources in the body that it has, in one pass over it.
func textInBody(body []byte, sources []config.Source) string {
	paths := make([][]string, len(sources))
	for i := range sources {
		paths[i] = sources[i].Path
	}
	text, _ := prompt.MemberText(body, paths...)
	return text
}

// sourceText returns the text of a source outside of the body, "" for none.
func (t *Traits) sourceText(s host.GatewayStream, source *config.Source) string {
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
