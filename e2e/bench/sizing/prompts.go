package sizing

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"

	"github.com/warmgate/warmgate/e2e/loadgen"
)

const (
	path = "/v1/chat/completions"
	host = "llm.example.com"
	// minBody is the shortest body of a chat, in bytes.
	minBody = 400
	// newShare is the share of a prompt that no request had before: in llm-d's workload, 5,000 of 100,000 tokens.
	newShare = 0.05
)

// lineBytes is the length of a line of text as JSON has it, with its escaped end.
const lineBytes = 82

// conversations render the requests of a cell. All bodies have the same size.
type conversations struct {
	heads [][]byte // of each conversation: a request from its first byte to the last message's text
	lines []byte   // of text, escaped
	last  int      // bytes of the last message's text
}

// tailEnd is what follows the text of the last message.
const tailEnd = `"}]}`

// idBytes is the length of what distinguishes the last messages.
const idBytes = 24

// newConversations prepares n of them with bodies of a size in bytes.
func newConversations(n, size int) *conversations {
	r := rand.New(rand.NewPCG(1, uint64(size)))
	c := &conversations{lines: text(r, 1<<20), last: max(idBytes+lineBytes, int(newShare*float64(size)))}
	for (c.last-idBytes)%lineBytes == lineBytes-1 { // it would end in the middle of an escape
		c.last++
	}
	for i := range n {
		head := c.messages(r, i, size-c.last-len(tailEnd))
		first := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n"+
			"Content-Length: %d\r\n\r\n", path, host, size)
		c.heads = append(c.heads, append([]byte(first), head...))
	}
	return c
}

// messages renders a conversation up to the text of its last message, in exactly size bytes.
func (c *conversations) messages(r *rand.Rand, conversation, size int) []byte {
	const lastMessage = `{"role":"user","content":"`
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"model":"sim","max_tokens":16,"messages":[{"role":"system","content":"%024d`, conversation)
	room := size - b.Len() - len(`"},`) - len(lastMessage)
	b.Write(c.excerpt(r, max(0, min(room, 2000))/lineBytes))
	b.WriteString(`"},`)
	const frame = len(`{"role":"assistant","content":""},`)
	for turn := 0; ; turn++ {
		lines := min(turnBytes, size-len(lastMessage)-b.Len()-frame) / lineBytes
		if lines < 1 {
			break
		}
		fmt.Fprintf(&b, `{"role":"%s","content":"%s"},`, []string{"user", "assistant"}[turn%2], c.excerpt(r, lines))
	}
	// White space between values is no part of the prompt.
	fmt.Fprintf(&b, `%s%s`, strings.Repeat(" ", max(0, size-b.Len()-len(lastMessage))), lastMessage)
	return b.Bytes()
}

// turnBytes is roughly the length of a turn.
const turnBytes = 1200

// excerpt returns so many lines of text from a random place.
func (c *conversations) excerpt(r *rand.Rand, lines int) []byte {
	all := len(c.lines) / lineBytes
	from := r.IntN(all-lines) * lineBytes
	return c.lines[from : from+lines*lineBytes]
}

// text returns n bytes of text as JSON has it, rounded down to whole lines.
func text(r *rand.Rand, n int) []byte {
	var b bytes.Buffer
	for range n / lineBytes {
		b.WriteString(loadgen.Text(r, (lineBytes-2)/4))
		b.WriteString(`\n`)
	}
	return b.Bytes()
}

// request returns request i: of the conversations in turn, with a last message that no other has.
func (c *conversations) request(i int) net.Buffers {
	id := fmt.Appendf(nil, "%0*d", idBytes, i)
	from := i * 7 % (len(c.lines)/lineBytes - c.last/lineBytes - 1) * lineBytes
	return net.Buffers{c.heads[i%len(c.heads)], id, c.lines[from : from+c.last-idBytes], []byte(tailEnd)}
}

// body returns the body of request i.
func (c *conversations) body(i int) []byte {
	_, body, _ := bytes.Cut(bytes.Join(c.request(i), nil), []byte("\r\n\r\n"))
	return body
}
