package prompt

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
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

// Where ids are: in requests, in objects and the events that begin with one, and in batches that are done.
var (
	heldPaths = [][]string{{"previous_response_id"}, {"conversation", "id"}, {"conversation"}, {"input_file_id"}}
	madePaths = [...][][]string{{{"id"}, {"response", "id"}}, {{"output_file_id"}}, {{"error_file_id"}}}
)

// HeldInBody returns the id of what the engine keeps that the body of a request refers to, "" for none.
func HeldInBody(body []byte) string {
	id, _ := MemberText(body, heldPaths...)
	return id
}

// HeldBytes is how many bytes of an answer HeldInAnswer needs at most.
const HeldBytes = 4 << 10

// HeldInAnswer returns the ids of what the engine has made, as far as the beginning of an answer has them: an object
// with an id, a batch with its files, or events of which the first is of an object with an id.
func HeldInAnswer(begin []byte) (ids []string) {
	at := bytes.IndexByte(begin, '{')
	if at < 0 {
		return nil
	}
	for i := range madePaths {
		if id, _ := MemberText(begin[at:], madePaths[i]...); id != "" {
			ids = append(ids, id)
		}
	}
	return ids
}

// Held returns a block that stands for what an engine keeps under an id, for stores that record who has it. It is the
// same for equal names; a tenant's is another than that of the others: see [Chainer.Claim].
func (c *Chainer) Held(tenant string, names ...string) Block {
	c.hash.Reset()
	c.addName([]byte("held"))
	c.addName([]byte(tenant))
	for _, name := range names {
		c.addName([]byte(name))
	}
	c.hash.Sum(c.state[:0])
	block := [1]Block{{Key: binary.LittleEndian.Uint64(c.state[:]) & (1<<tenantShift - 1), End: 1}}
	if tenant != "" {
		c.Claim(block[:], tenant)
	}
	return block[0]
}
