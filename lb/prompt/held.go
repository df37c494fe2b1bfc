package prompt

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/warmgate/warmgate/internal/jsontext"
)

// Engines keep what later calls refer to by an id: answers of the Responses API, conversations, files, batches. This
// file finds such ids: in paths, in bodies and in the beginning of answers.

// collections are the names of what engines keep. A call that ends with one of them makes something; behind it in a
// path stands an id.
var collections = [...]string{
	"responses", "conversations", "files", "batches", "uploads", "vector_stores", "videos",
}

// heldCalls are what calls on something that an engine keeps may end with, behind its id.
var heldCalls = [...]string{
	"", "cancel", "input_items", "items", "content", "results", "parts", "complete", "files", "file_batches", "search",
}

// MakesHeld reports whether the answer to a call may name something new that the engine keeps: it makes it, or it is a
// batch, which has files once it is done.
func MakesHeld(method, path string) bool {
	path = plainPath(path)
	if method == "GET" {
		return endsLike(path, lastSegment(path), "/batches/*")
	}
	return method == "POST" && isCollection(lastSegment(path))
}

// NamesHeld reports whether the body of a call may refer to what the engine keeps.
func NamesHeld(method, path string) bool {
	last := lastSegment(plainPath(path))
	return method == "POST" && (last == "responses" || last == "batches")
}

//go:noinline
func isCollection(segment string) bool {
	for _, name := range collections {
		if segment == name {
			return true
		}
	}
	return false
}

// HeldInPath returns the id in the path of a call on something that an engine keeps, "" for another one. Names of calls
// stand where ids do, but ids have digits; and a prefix of all paths may look like a collection and an id, but then
// something else follows.
func HeldInPath(path string) string {
	path = plainPath(path)
	for rest := path; rest != ""; {
		var segment string
		segment, rest, _ = strings.Cut(rest, "/")
		if isCollection(segment) {
			id, behind, _ := strings.Cut(rest, "/")
			call, _, _ := strings.Cut(behind, "/")
			if strings.ContainsAny(id, "0123456789") && slices.Contains(heldCalls[:], call) {
				return id
			}
		}
	}
	return ""
}

// Where ids are in requests, most often.
var heldPaths = [][]string{{"previous_response_id"}, {"conversation", "id"}, {"conversation"}, {"input_file_id"}}

// namesParts reports whether ids may be inside the prompt or the tools of a request: that takes a lot longer to read.
func namesParts(body []byte) bool {
	for i := 0; ; i++ {
		at := bytes.IndexByte(body[i:], '_')
		if at < 0 {
			return false
		}
		i += at
		before, behind := body[:i], body[i:]
		if bytes.HasPrefix(behind, []byte("_id\"")) && bytes.HasSuffix(before, []byte("\"file")) ||
			bytes.HasPrefix(behind, []byte("_reference\"")) || bytes.HasPrefix(behind, []byte("_store_ids\"")) {
			return true
		}
	}
}

// refs are what the body of a request refers to, the first of each kind: an answer or a conversation that it goes on,
// the file of a batch, a file in the prompt, a part of an earlier answer, or what a tool searches.
type refs struct{ chain, conversation, batch, file, item, store string }

// HeldInBody returns the id of what the engine keeps that the body of a request refers to, "" for none.
func HeldInBody(body []byte) string {
	if !namesParts(body) {
		id, _ := MemberText(body, heldPaths...)
		return id
	}
	var r refs
	values := maxMemberValues
	eachMember(body, jsontext.Space(body, 0), &values, func(key []byte, escaped bool, at int) bool {
		switch is := func(name string) bool { return isName(key, escaped, name) }; {
		case is("previous_response_id"):
			note(&r.chain, textAt(body, at, nil, &values))
		case is("conversation"):
			note(&r.conversation, textAt(body, at, []string{"id"}, &values))
			note(&r.conversation, textAt(body, at, nil, &values))
		case is("input_file_id"):
			note(&r.batch, textAt(body, at, nil, &values))
		case is("input"):
			inner := maxMemberValues // so that what stands behind it is found
			eachElement(body, at, &inner, func(at int) bool { return r.readItem(body, at, &inner) })
		case is("tools"):
			inner := maxMemberValues
			eachElement(body, at, &inner, func(at int) bool { return r.readTool(body, at, &inner) })
		}
		return r.chain == ""
	})
	return cmp.Or(r.chain, r.conversation, r.batch, r.file, r.item, r.store)
}

// readItem reads an item of the input; it reports whether more of them matter.
func (r *refs) readItem(body []byte, at int, values *int) bool {
	var kind, id string
	eachMember(body, at, values, func(key []byte, escaped bool, at int) bool {
		switch {
		case isName(key, escaped, "type"):
			kind = textAt(body, at, nil, values)
		case isName(key, escaped, "id"):
			id = textAt(body, at, nil, values)
		case isName(key, escaped, "content"):
			eachElement(body, at, values, func(at int) bool {
				note(&r.file, textAt(body, at, []string{"file_id"}, values))
				return r.file == ""
			})
		}
		return true
	})
	if kind == "item_reference" {
		note(&r.item, id)
	}
	return r.file == ""
}

// readTool reads what a tool searches; it reports whether more of them matter.
func (r *refs) readTool(body []byte, at int, values *int) bool {
	eachMember(body, at, values, func(key []byte, escaped bool, at int) bool {
		if isName(key, escaped, "vector_store_ids") {
			eachElement(body, at, values, func(at int) bool {
				note(&r.store, textAt(body, at, nil, values))
				return false
			})
		}
		return true
	})
	return r.store == ""
}

// note takes over a text, unless there is one.
func note(to *string, text string) {
	if *to == "" {
		*to = text
	}
}

// eachElement calls f with where each value of the list that begins at at begins, as long as f returns true.
func eachElement(body []byte, at int, values *int, f func(at int) bool) {
	if at >= len(body) || body[at] != '[' {
		return
	}
	for at++; *values > 0; {
		for at < len(body) && (jsontext.IsSpace(body[at]) || body[at] == ',') {
			at++
		}
		if at >= len(body) || body[at] == ']' || !f(at) {
			return
		}
		end, n := jsontext.SkipValue(body, at, *values)
		*values -= n
		at = max(end, at+1)
	}
}

// HeldBytes is how many bytes of an answer HeldInAnswer needs at most.
const HeldBytes = 4 << 10

// maxMade is how many ids of an answer are noted.
const maxMade = 16

// Where ids are in objects, in the events of which they are part, and in batches that are done.
var madePaths = [...][][]string{
	{{"id"}, {"response", "id"}}, {{"output_file_id"}}, {{"error_file_id"}}, {{"item", "id"}},
}

// HeldInAnswer returns the ids of what the engine has made, as far as the beginning of an answer has them: an object
// with an id, or a batch with its files, or events of such objects; and parts of an answer.
func HeldInAnswer(begin []byte) (ids []string) {
	if at := jsontext.Space(begin, 0); at < len(begin) && begin[at] == '{' {
		return appendMade(nil, begin[at:])
	}
	for len(begin) > 0 && len(ids) < maxMade {
		var line []byte
		line, begin, _ = bytes.Cut(begin, []byte("\n"))
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			ids = appendMade(ids, data[jsontext.Space(data, 0):])
		}
	}
	return ids
}

// appendMade appends the ids in an object that are not noted yet.
func appendMade(ids []string, object []byte) []string {
	add := func(id string) {
		if id != "" && len(ids) < maxMade && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	for i := range madePaths {
		id, _ := MemberText(object, madePaths[i]...)
		add(id)
	}
	values := maxMemberValues
	eachMember(object, 0, &values, func(key []byte, escaped bool, at int) bool {
		if isName(key, escaped, "output") {
			eachElement(object, at, &values, func(at int) bool {
				add(textAt(object, at, []string{"id"}, &values))
				return len(ids) < maxMade
			})
		}
		return true
	})
	return ids
}

// Held returns a block that stands for what an engine keeps under an id, for stores that record who has it. It is the
// same for equal names; a tenant's is another than that of the others: see [Chainer.Claim].
func (c *Chainer) Held(tenant string, names ...string) Block {
	c.cutter.hash.Reset()
	c.cutter.addName([]byte("held"))
	c.cutter.addName([]byte(tenant))
	for _, name := range names {
		c.cutter.addName([]byte(name))
	}
	c.cutter.hash.Sum(c.cutter.state[:0])
	block := [1]Block{{Key: binary.LittleEndian.Uint64(c.cutter.state[:]) & (1<<tenantShift - 1), End: 1}}
	if tenant != "" {
		c.Claim(block[:], tenant)
	}
	return block[0]
}
