package prompt

import (
	"bytes"
	"encoding/binary"
	"strings"

	"github.com/dchest/siphash"
)

// Engines keep what later calls refer to by an id: answers of the Responses API, conversations, files, batches. This
// file finds such ids: in paths, in bodies and in the beginning of answers.

// collections are the names of what engines keep. A call that ends with one of them makes something; behind it in a
// path stands an id.
var collections = [...]string{
	"responses", "conversations", "files", "batches", "uploads", "vector_stores", "threads", "videos",
}

// MakesHeld reports whether the answer to a call may name something new that the engine keeps: it makes it, or it is a
// batch, which has files once it is done.
func MakesHeld(method, path string) bool {
	path = plainPath(path)
	if method == "GET" {
		return endsLike(path, path[strings.LastIndexByte(path, '/')+1:], "/batches/*")
	}
	return method == "POST" && isCollection(path[strings.LastIndexByte(path, '/')+1:])
}

// NamesHeld reports whether the body of a call may refer to what the engine keeps.
func NamesHeld(method, path string) bool {
	path = plainPath(path)
	return method == "POST" && (strings.HasSuffix(path, "/responses") || strings.HasSuffix(path, "/batches"))
}

func isCollection(segment string) bool {
	for _, name := range collections {
		if segment == name {
			return true
		}
	}
	return false
}

// HeldInPath returns the id in the path of a call on something that an engine keeps, "" for another one. Names of calls
// stand where ids do, but ids have digits.
func HeldInPath(path string) string {
	path = plainPath(path)
	for rest := path; rest != ""; {
		var segment string
		segment, rest, _ = strings.Cut(rest, "/")
		if isCollection(segment) {
			id, _, _ := strings.Cut(rest, "/")
			if strings.ContainsAny(id, "0123456789") {
				return id
			}
		}
	}
	return ""
}

// HeldInBody returns the id of what the engine keeps that the body of a request refers to, "" for none.
func HeldInBody(body []byte) string {
	id, _ := MemberText(body, []string{"previous_response_id"}, []string{"conversation", "id"},
		[]string{"conversation"}, []string{"input_file_id"})
	return id
}

// HeldBytes is how many bytes of an answer HeldInAnswer needs at most.
const HeldBytes = 4 << 10

// HeldInAnswer returns the ids of what the engine has made, as far as the beginning of an answer has them: an object
// with an id, a batch with its files, or events of which the first is of an object with an id.
func HeldInAnswer(begin []byte) (ids []string) {
	for _, paths := range [...][][]string{
		{{"id"}, {"response", "id"}}, {{"output_file_id"}}, {{"error_file_id"}},
	} {
		if at := bytes.IndexByte(begin, '{'); at >= 0 {
			if id, _ := MemberText(begin[at:], paths...); id != "" {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// HeldBlock returns a block that stands for what an engine keeps under an id, for stores that record who has it. It is
// the same for equal names, and the tenant's, 0 for none: see [Block.Tenant].
func HeldBlock(secret [16]byte, tenant uint64, names ...string) Block {
	var text []byte
	for _, name := range names {
		text = append(binary.LittleEndian.AppendUint64(text, uint64(len(name))), name...)
	}
	text = binary.LittleEndian.AppendUint64(append(text, "held"...), tenant)
	key := siphash.Hash(binary.LittleEndian.Uint64(secret[:]), binary.LittleEndian.Uint64(secret[8:]), text)
	key &= 1<<tenantShift - 1
	if tenant != 0 {
		key |= (1 + tenant%255) << tenantShift
	}
	return Block{Key: key, End: 1}
}
