package request

import (
	"cmp"
	"errors"
	"strings"

	"github.com/warmgate/warmgate/internal/state"
	"github.com/warmgate/warmgate/lb/prompt"
)

// This file is how a request is shown to those who look into the gateway.

// Shown is what is shown of a request, and what a trial keeps for that.
type Shown struct {
	of     *Subject
	model  string // its name
	unread string // why no more of its body was read
}

// apiNames are the names of APIs as they are shown.
var apiNames = [...]string{
	prompt.Unknown: "", prompt.Chat: "chat", prompt.Completions: "completions", prompt.Responses: "responses",
	prompt.Embeddings: "embeddings", prompt.Rerank: "rerank", prompt.Anthropic: "anthropic", prompt.SGLang: "sglang",
	prompt.TGI: "tgi", prompt.Triton: "triton", prompt.Gemini: "gemini",
}

// callNames are the names of what calls make an engine do.
var callNames = [...]string{
	prompt.Computes: "computes", prompt.Unlisted: "unlisted", prompt.Bodiless: "bodiless", prompt.Idle: "idle",
	prompt.Counts: "counts", prompt.Quiet: "quiet",
}

// maxShownModel is how much of a model's name is shown.
const maxShownModel = 256

// API returns the name of the API that the request is for, "" if that is not known.
func (n *Shown) API() string { return apiNames[n.of.Traits.shapeOr(n.of.Prompt.Work.Info.API)] }

// Model returns the name of the request's model, as far as one was kept, and cut short.
func (n *Shown) Model() string {
	name := cmp.Or(n.of.Prompt.Model, n.model, n.of.Metrics.Model, prompt.ModelInPath(n.of.Traits.Path))
	return strings.ToValidUTF8(name[:min(len(name), maxShownModel)], "")
}

// Read keeps what a trial shows of its body, which was read or could not be.
func (n *Shown) Read(b *Content) {
	if !n.of.Trial {
		return
	}
	switch n.unread = b.unread; {
	case errors.Is(b.Err, prompt.ErrAmbiguous):
		n.unread = "ambiguous"
	case b.Err != nil:
		n.unread = "malformed"
	default:
		n.model = b.parts.ModelName(b.Text)
	}
}

// Trial returns what was read of a trial.
func (n *Shown) Trial() state.Request {
	s, w := n.of, &n.of.Prompt.Work
	r := state.Request{
		Call: callNames[s.What], API: n.API(), Model: n.Model(),
		Stream: w.Info.Stream, BodyBytes: int64(s.Body.Received), ReadBytes: int64(w.Seen),
		TextBytes: int64(w.Info.TextBytes), MaxTokens: int64(w.Info.MaxTokens), Unread: n.whyUnread(),
	}
	if c := s.Config; c != nil {
		if c.ReadsSession() {
			r.Session = given(s.Session.Key != 0)
		}
		if name := s.Traits.tenantName(c); name != "" {
			r.Tenant = given(name != "=")
		}
	}
	return r
}

func given(is bool) string {
	if is {
		return "given"
	}
	return "none"
}

// whyUnread returns why not all of the body was read, "" if it was.
func (n *Shown) whyUnread() string {
	s, w := n.of, &n.of.Prompt.Work
	switch {
	case n.unread != "":
		return n.unread
	case w.Seen > 0 && w.Seen >= s.Body.Received, s.Body.Received == 0 && s.Traits.Length == 0:
		return ""
	case s.Traits.Opaque:
		return "opaque"
	case s.Traits.Encoded:
		return "encoded"
	case s.Body.Late:
		return unreadLate
	case w.Seen > 0:
		return unreadLong
	}
	return "not_needed"
}
