package placement

import (
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/plugin/measured"
)

// Record is what the access log has of a request beside what was measured. What is not known is 0.
type Record struct {
	Bytes   int    // of the prompt's text
	Session uint32 // the same for all requests of a session
	blocks  []prompt.Block
	known   int // of the blocks, at the chosen endpoint
}

// Record sets m to what is known of the request by now, and returns what the access log has beside that.
func (s *Serving) Record(m *measured.Request) Record {
	pl := s.Of
	s.fill(m)
	if s.holds() {
		pl.Lease.explain(m)
	}
	out := Record{Bytes: pl.Prompt.Work.Info.TextBytes, Session: pl.SessionID()}
	if p := pl.Prompt.Chain; p.HasBlocks() {
		out.Bytes, out.blocks, out.known = p.Length, p.Blocks, pl.Lease.Reservation.Grant.Cached
	}
	return out
}
