package prompt

import "github.com/warmgate/warmgate/internal/jsontext"

// maxMemberValues is how many values of a body MemberText skips at most, as many as Scan parses.
const maxMemberValues = 20_000

// MemberText returns the text of a member of a JSON object, by its path: the names of the objects that it is in, then
// its own. It is the unescaped text of a string, and a number as it is written. It is "" for a member that is absent,
// of another type, longer than 1 KiB, or not wholly in a body that is cut off. Of members with one name the first
// counts. The time is linear in len(body) for any content.
func MemberText(body []byte, path ...string) string {
	const longest = 1 << 10
	values := maxMemberValues
	at := jsontext.Space(body, 0)
	for _, name := range path {
		if at >= len(body) || body[at] != '{' {
			return ""
		}
		if at = memberAt(body, at, name, &values); at < 0 {
			return ""
		}
	}
	if at >= len(body) {
		return ""
	}
	switch c := body[at]; {
	case c == '"':
		content, _, end := jsontext.SkipString(body, at)
		if len(content) > longest || end == len(body) {
			return ""
		}
		return string(jsontext.AppendUnescaped(nil, content))
	case c == '-' || c >= '0' && c <= '9':
		end := jsontext.SkipScalar(body, at)
		if end-at > longest || end == len(body) {
			return ""
		}
		return string(body[at:end])
	}
	return ""
}

// memberAt returns the index of the value of a member of the object that begins at at, -1 if there is none.
func memberAt(body []byte, at int, name string, values *int) int {
	var room [64]byte
	for *values > 0 {
		for at++; at < len(body) && (jsontext.IsSpace(body[at]) || body[at] == ','); at++ {
		}
		if at >= len(body) || body[at] != '"' {
			return -1
		}
		key, escaped, end := jsontext.SkipString(body, at)
		if at = jsontext.AfterKey(body, end); at < 0 || at == len(body) {
			return -1
		}
		if string(key) == name || escaped && string(jsontext.AppendUnescaped(room[:0], key)) == name {
			return at
		}
		end, n := jsontext.SkipValue(body, at, *values)
		*values -= n
		at = end - 1
	}
	return -1
}
