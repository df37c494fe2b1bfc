package request

import "strings"

// This file is what the header Prefer of RFC 7240 says: the coordinator of llm-d has a prompt decoded at once with it
// where that is cached, and goes on with its prefill elsewhere when it gets 412.

// PrefersAvailable reports whether the request is to be answered only where its prompt is cached, as far as that is
// configured.
func (s *Subject) PrefersAvailable() bool {
	if s.Config.Prefix.IfAvailable == 0 || !s.Config.ReadsPrompt() || s.Config.AmongClusters() || !s.Computes() ||
		s.Config.Shadow {
		return false
	}
	s.Traits.Read(s.Gateway)
	for _, h := range s.Traits.Headers {
		if h[0] == "prefer" && hasPreference(h[1], "if-available") {
			return true
		}
	}
	return false
}

// hasPreference reports whether a list of preferences, each like NAME=VALUE;PARAMETER, has one with the name.
func hasPreference(text, name string) bool {
	for text != "" {
		var one string
		one, text = cutPreference(text)
		if i := strings.IndexAny(one, "=;"); i >= 0 {
			one = one[:i]
		}
		if strings.EqualFold(strings.Trim(one, " \t"), name) {
			return true
		}
	}
	return false
}

// cutPreference returns the text up to the first comma outside of quotes, and what is behind that.
func cutPreference(text string) (one, rest string) {
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case !quoted && c == ',':
			return text[:i], text[i+1:]
		}
	}
	return text, ""
}
