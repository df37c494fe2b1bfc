package request

import (
	"cmp"
	"strings"

	"github.com/warmgate/warmgate/internal/state"
	"github.com/warmgate/warmgate/lb/prompt"
)

// This file is how a request is shown to those who look into the gateway.

// Shown is what is shown of a request.
type Shown struct{ Of *Subject }

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
func (n Shown) API() string { return apiNames[n.Of.Traits.shapeOr(n.Of.Prompt.Work.Info.API)] }

// Model returns the name of the request's model, as far as one was kept, and cut short.
func (n Shown) Model() string {
	s := n.Of
	name := cmp.Or(s.Prompt.Model, s.Metrics.Model, prompt.ModelInPath(s.Traits.Path))
	return strings.ToValidUTF8(name[:min(len(name), maxShownModel)], "")
}

// Trial returns what was read of a trial.
func (n Shown) Trial() state.Request {
	s, w := n.Of, &n.Of.Prompt.Work
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
func (n Shown) whyUnread() string {
	s, w := n.Of, &n.Of.Prompt.Work
	switch {
	case n.Of.Noted.unread != "":
		return n.Of.Noted.unread
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
