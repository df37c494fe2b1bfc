package placement

import (
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
	*m = measured.Request{Cluster: pl.Scope, Endpoint: pl.Lease.Addr, Policy: pl.Config.Policy}
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
	s.measureInto(m, &out)
	pl.explain(m)
	return out
}

// measureInto sets m to what was measured by now. The answer's usage is read before it is learned from at the end.
func (s *Serving) measureInto(m *measured.Request, known *Record) {
	pl := s.Of
	r := &pl.Response
	m.Model, m.Status, m.Streamed = known.Model, r.Status, r.Streamed
	m.Match, m.Matches = known.Match, known.Matches
	u, found := known.Tokens, !known.Estimated
	if !found && r.Answer != nil {
		if read, ok := r.Answer.Usage(r.Complete); ok {
			u, found = read, true
		}
	}
	m.Tokens = measured.Tokens{
		Input: int64(u.Prompt - u.Cached), Cached: int64(u.Cached), Output: int64(u.Output), Estimated: !found,
	}
	if began := pl.Body.BeganAt; began > 0 {
		m.Duration = pl.Shared.ReadClock() - began
		if r.FirstAt > 0 {
			m.TTFT, m.Prefill = max(0, r.FirstAt-began), known.TTFT
		}
	}
	switch {
	case r.Status >= 500:
		m.Outcome = measured.ServerFailed
	case r.Status >= 400:
		m.Outcome = measured.ClientError
	}
}
