package request

import (
	"errors"

	"github.com/warmgate/warmgate/lb/prompt"
)

// Noted is what a trial keeps of its body for who asks about it.
type Noted struct {
	unread string // why no more of it was read
}

// Read notes a body that was read, or could not be.
func (n *Noted) Read(b *Content) {
	switch n.unread = b.unread; {
	case errors.Is(b.Err, prompt.ErrAmbiguous):
		n.unread = "ambiguous"
	case b.Err != nil:
		n.unread = "malformed"
	}
}
