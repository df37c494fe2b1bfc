package prompt

import "strings"

// Gateways and frameworks put the answer of an engine into one of their own: behind the name of an error, a path and a
// status, and perhaps as a whole, as JSON or as Python prints that. What a client has sent may be quoted there as well.

// mistakes may stand in front of a message, and of what a client has sent.
const mistakes = "|input validation error|invalid request|bad request|"

const (
	maxWrappers = 6
	maxWrapper  = 64 // bytes
)

// unwrapped returns a message without what gateways and frameworks put around it. kind is the type of the error, or of
// the inner one.
func unwrapped(said, kind string) (string, string) {
	sent := false // what follows may be what the client has sent
	for range maxWrappers {
		said = strings.TrimLeft(said, " \n-")
		end, behind := strings.IndexByte(said, ':'), 1
		if at := strings.Index(said, " - "); at >= 0 && (end < 0 || at < end) {
			end, behind = at, len(" - ")
		}
		status, rest, _ := strings.Cut(said, " ")
		switch {
		case isStatus(status):
			said = rest
		case end > 0 && end <= maxWrapper && isWrapper(strings.ToLower(said[:end])):
			sent = sent || strings.Contains(mistakes, "|"+strings.ToLower(said[:end])+"|")
			said = said[end+behind:]
		case strings.HasPrefix(said, "{") && !sent:
			message, end := readObject(said)
			switch {
			case end < 0 || !endsAnswer(said[end:]): // a client's, quoted
				return said, kind
			case strings.HasPrefix(said, "{'"):
				said = strings.ReplaceAll(message, `\'`, "'")
			default:
				text := []byte(said[:end])
				kind = lowerMember(text, kindPaths)
				said, _ = MemberText(text, messagePaths...)
			}
		default:
			return strings.TrimPrefix(said, "invalid params, "), kind // MiniMax
		}
	}
	return said, kind
}

// endsAnswer reports whether no more than a gateway's own words follow the answer of an engine: LiteLLM's.
func endsAnswer(rest string) bool {
	rest = strings.TrimLeft(rest, ". \n")
	return rest == "" || strings.HasPrefix(rest, "Received Model Group=")
}

// readObject reads the object at the beginning of a text, as JSON or as Python prints it. It returns the text of its
// member message, or of that in its member error, as it is written, and where the object ends, -1 if it does not.
func readObject(text string) (message string, end int) {
	depth, member, key := 0, "", "" // member is the latest of the object itself, key that of any
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '{', '[', '(':
			depth++
		case '}', ']', ')':
			if depth--; depth == 0 {
				return message, i + 1
			}
		case '"', '\'':
			from := i + 1
			for i++; i < len(text) && text[i] != c; i++ {
				if text[i] == '\\' {
					i++
				}
			}
			if i >= len(text) {
				return "", -1
			}
			word := text[from:i]
			switch {
			case strings.HasPrefix(text[i+1:], ":"):
				if key = word; depth == 1 {
					member = word
				}
			case key == "message" && message == "" && (depth == 1 || depth == 2 && member == "error"):
				message = word
			}
		}
	}
	return "", -1
}

// isWrapper reports whether a text in lower case may stand in front of a message.
func isWrapper(text string) bool {
	word := strings.TrimPrefix(text, "<400> ") // DashScope
	switch {
	case text == "error code" || strings.Contains(mistakes, "|"+text+"|"):
		return true
	case strings.ContainsAny(word, " '\"`"):
		return false
	}
	return strings.HasPrefix(word, "/") || strings.HasSuffix(word, "error") || strings.HasSuffix(word, "exception") ||
		strings.HasSuffix(word, ".invalidparameter")
}

// isStatus reports whether a text is the status of a client's error.
func isStatus(text string) bool { return len(text) == 3 && text[0] == '4' }
