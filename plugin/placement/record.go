package placement

import (
	"strconv"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/answer"
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/plugin/measured"
)

// Record is what is known of a request by its end, beside where it was placed. What is not known is 0 or "".
type Record struct {
	Model     string        // the name that the client has sent, if an endpoint has answered for it
	TTFT      time.Duration // from when it was sent to the first output of a stream
	Tokens    answer.Usage  // of the prompt and the answer
	Estimated bool          // Tokens are not from an answer
	Bytes     int           // of the prompt's text
	Matches   bool          // there is a prompt that an endpoint can have in its cache
	Match     float64       // the share of it that was expected there
	Session   uint32        // the same for all requests of a session
	blocks    []prompt.Block
	known     int // of the blocks, at the chosen endpoint
}

// Record returns what is known of the request for the line of the access log, and sets m to what was measured of it.
func (s *Serving) Record(m *measured.Request) Record {
	pl := s.Of
	s.fill(m)
	u, r := &pl.Prompt, &pl.Lease.Reservation
	out := Record{Bytes: u.Work.Info.TextBytes, Session: pl.SessionID(), Tokens: u.Usage, Estimated: !u.Used}
	if status := pl.Response.Status; status >= 200 && status < 300 {
		out.Model = u.Model
	}
	if !u.Used && pl.Config.Unit == lb.Tokens {
		out.Tokens = answer.Usage{Prompt: int(r.Request.PromptTokens), Output: int(r.Request.OutputTokens)}
		if pl.Response.Streamed {
			out.Tokens.Output = int(pl.Response.Parts) // engines send each token by itself
		}
	}
	if first := pl.Response.FirstAt; first > 0 {
		out.TTFT = max(time.Millisecond, first-pl.Response.SentAt)
	}
	if p := u.Chain; p.HasBlocks() {
		out.Bytes, out.Matches, out.Match = p.Length, true, p.Cached
		out.blocks, out.known = p.Blocks, r.Grant.Cached
	}
	return out
}

// maxModel is the length at which the name of a model is cut off.
const maxModel = 64

// Append appends to a line of the access log what is known. What a client could choose is escaped.
func (r *Record) Append(line []byte) []byte {
	number := func(name string, v int64) { line = strconv.AppendInt(append(line, name...), v, 10) }
	if r.Model != "" {
		line = appendEscaped(append(line, " model="...), r.Model, maxModel)
	}
	if r.TTFT > 0 {
		number(" ttft=", r.TTFT.Milliseconds())
		line = append(line, "ms"...)
	}
	if t := &r.Tokens; t.Prompt+t.Output > 0 {
		number(" prompt_tokens=", int64(t.Prompt))
		if number(" output_tokens=", int64(t.Output)); r.Estimated {
			line = append(line, " usage=estimated"...)
		} else {
			number(" cached_tokens=", int64(t.Cached))
		}
	}
	if r.Bytes > 0 {
		number(" prompt_bytes=", int64(r.Bytes))
	}
	if r.Matches {
		line = strconv.AppendFloat(append(line, " match="...), r.Match, 'f', 2, 64)
	}
	if r.Session != 0 {
		line = strconv.AppendUint(append(line, " session_id="...), uint64(r.Session), 16)
	}
	if r.Matches {
		line = prompt.AppendFingerprint(append(line, " prompt="...), r.blocks, r.known)
	}
	return line
}

// appendEscaped appends a text of at most so many bytes as a part of a URL has it: all that could end it, or the line,
// is escaped. What is longer is cut off.
func appendEscaped(line []byte, text string, most int) []byte {
	const hex = "0123456789ABCDEF"
	for i := 0; i < min(len(text), most); i++ {
		switch c := text[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '-' && c <= ':', c == '_', c == '@', c == '+':
			line = append(line, c)
		default:
			line = append(line, '%', hex[c>>4], hex[c&15])
		}
	}
	return line
}
