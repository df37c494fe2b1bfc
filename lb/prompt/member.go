package prompt

import "github.com/warmgate/warmgate/internal/jsontext"

// maxMemberValues is how many values of a body MemberText skips at most, as many as Scan parses.
const maxMemberValues = 20_000

// MemberText returns the text of the first of several members that a JSON object has, and its number, -1 for none. A
// member is known by its path: the names of the objects that it is in, then its own. Its text is the unescaped text of
// a string, or a number as it is written. A member that is empty, of another type, longer than 1 KiB, or not wholly in
// a body that is cut off, does not count; of several with one path the first that does is taken. All are found in one
// pass, whose time is linear in len(body) for any content.
func MemberText(body []byte, paths ...[]string) (text string, number int) {
	number = len(paths)
	values := maxMemberValues
	eachMember(body, jsontext.Space(body, 0), &values, func(key []byte, escaped bool, at int) bool {
		for i := range number {
			if !isName(key, escaped, paths[i][0]) {
				continue
			}
			if found := textAt(body, at, paths[i][1:], &values); found != "" {
				text, number = found, i
				break
			}
		}
		return number > 0
	})
	if text == "" {
		return "", -1
	}
	return text, number
}

// eachMember calls f with the key of each member of the object that begins at at, and where its value begins, as long
// as f returns true.
func eachMember(body []byte, at int, values *int, f func(key []byte, escaped bool, at int) bool) {
	if at >= len(body) || body[at] != '{' {
		return
	}
	for *values > 0 {
		for at++; at < len(body) && (jsontext.IsSpace(body[at]) || body[at] == ','); at++ {
		}
		if at >= len(body) || body[at] != '"' {
			return
		}
		key, escaped, end := jsontext.SkipString(body, at)
		at = jsontext.AfterKey(body, end)
		if at < 0 || at == len(body) || !f(key, escaped, at) {
			return
		}
		end, n := jsontext.SkipValue(body, at, *values)
		*values -= n
		at = end - 1
	}
}

// isName reports whether a key is the name, as far as it is unescaped at all: an escape of a byte takes six.
func isName(key []byte, escaped bool, name string) bool {
	if !escaped || len(key) > 6*len(name) {
		return string(key) == name
	}
	var room [64]byte
	return string(jsontext.AppendUnescaped(room[:0], key)) == name
}

// textAt returns the text of the value at at, or of the member of it with the path.
func textAt(body []byte, at int, path []string, values *int) (text string) {
	const longest = 1 << 10
	if len(path) > 0 {
		eachMember(body, at, values, func(key []byte, escaped bool, at int) bool {
			if !isName(key, escaped, path[0]) {
				return true
			}
			text = textAt(body, at, path[1:], values)
			return false
		})
		return text
	}
	switch c := body[at]; {
	case c == '"':
		if content, _, end := jsontext.SkipString(body, at); len(content) <= longest && end < len(body) {
			return string(jsontext.AppendUnescaped(nil, content))
		}
	case c == '-' || c >= '0' && c <= '9':
		if end := jsontext.SkipScalar(body, at); end-at <= longest && end < len(body) {
			return string(body[at:end])
		}
	}
	return ""
}
