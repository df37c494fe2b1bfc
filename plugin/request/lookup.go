package request

import (
	"slices"

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
func (l *Lookup) mayBeInBody(t *Traits, in []config.Source) bool { return l.Next < len(in) && !t.notJSON }

// textInBody returns the text of the first of the sources in the body that it has, in one pass over it.
func textInBody(body []byte, sources []config.Source) string {
	paths := make([][]string, len(sources))
	for i := range sources {
		paths[i] = sources[i].Path
	}
	text, _ := prompt.MemberText(body, paths...)
	return text
}
