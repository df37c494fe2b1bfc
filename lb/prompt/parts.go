package prompt

import (
	"bytes"
	"strings"
)

// ModelInParts returns the model that a multipart body names, as uploads of sounds and pictures do, "" for none in what
// has come of it, or for several that differ. Only the headers of parts count, by the boundary of the first line: a
// file may contain anything.
func ModelInParts(body []byte) (model string) {
	const most = 72 // bytes: two hyphens and a boundary, by RFC 2046
	end := bytes.Index(body[:min(len(body), most+2)], []byte("\r\n"))
	if end <= 2 || string(body[:2]) != "--" {
		return ""
	}
	boundary := append([]byte("\r\n"), body[:end]...)
	for rest := body[end:]; ; {
		header, content, ok := bytes.Cut(rest, []byte("\r\n\r\n"))
		if !ok {
			return model
		}
		if isModelPart(header) {
			name, _, ended := bytes.Cut(content[:min(len(content), maxModelName+2)], []byte("\r\n"))
			if !ended || model != "" && string(name) != model {
				return ""
			}
			model = string(name)
		}
		_, next, ok := bytes.Cut(content, boundary)
		if !ok || !bytes.HasPrefix(next, []byte("\r\n")) { // it is the last one, or not all has come
			return model
		}
		rest = next
	}
}

// isModelPart reports whether a part with such headers is the field model, and no file.
func isModelPart(headers []byte) bool {
	const field = "content-disposition:"
	for len(headers) > 0 {
		var line []byte
		line, headers, _ = bytes.Cut(headers, []byte("\r\n"))
		if len(line) > len(field) && bytes.EqualFold(line[:len(field)], []byte(field)) {
			return isModelField(string(line[len(field):]))
		}
	}
	return false
}

// isModelField reports whether parameters, between semicolons, are those of the field model.
func isModelField(text string) (is bool) {
	from, quoted := 0, false
	for at := 0; at <= len(text); at++ {
		switch {
		case at < len(text) && text[at] == '"':
			quoted = !quoted
		case at < len(text) && text[at] == '\\' && quoted:
			at++
		case at >= len(text) || text[at] == ';' && !quoted:
			parameter := strings.ToLower(strings.Trim(text[from:min(at, len(text))], " \t"))
			if strings.HasPrefix(parameter, "filename") {
				return false
			}
			is = is || parameter == `name="model"` || parameter == "name=model"
			from = at + 1
		}
	}
	return is
}
