package region

import (
	"time"

	"github.com/warmgate/warmgate/internal/wire"
)

const (
	// mostFailed is how many requests in a row a peer fails until no more are sent there for a while.
	mostFailed = 3
	// firstPause is how long that is at first. It is doubled by each request that fails after one, up to longestPause.
	firstPause   = time.Second
	longestPause = 30 * time.Second
)

// outcomes is what has become of the requests that were forwarded to a peer: what it says of itself may not be true, or
// not of what requests need. In shared memory it is, little-endian, 4 failed, 8 until.
type outcomes struct {
	failed uint32        // in a row
	until  time.Duration // nothing is sent there before, 0 while it is trusted; then one request, for another pause
}

// pause returns for how long nothing is sent to a peer that has failed so many requests in a row.
func (o *outcomes) pause() time.Duration {
	return min(firstPause<<min(o.failed-mostFailed, 8), longestPause)
}

// pauses reports whether no request may be sent there now.
func (o *outcomes) pauses(now time.Duration) bool { return now < o.until }

// send notes that a request is sent there. After a pause it is a trial, which counts as failed until it is known to be
// served: nothing else is sent before, or for the next pause.
func (o *outcomes) send(now time.Duration) {
	if o.until > 0 {
		o.failed++
		o.until = now + o.pause()
	}
}

// end notes how a request has ended that was sent at a time. It returns false if nothing has changed.
func (o *outcomes) end(now, sent time.Duration, served bool) bool {
	switch {
	case served:
		changed := *o != outcomes{}
		*o = outcomes{}
		return changed
	case o.until == 0:
		o.failed++
	case sent < o.until-o.pause(): // it was under way when the pause began
		return false
	}
	if o.failed >= mostFailed {
		o.until = now + o.pause()
	}
	return true
}

func readOutcomes(r *wire.Reader[[]byte]) outcomes { return outcomes{r.Uint32(), r.Duration()} }

func (o *outcomes) append(w wire.Writer) wire.Writer { return w.Uint32(o.failed).Duration(o.until) }

// End notes how a request has ended that was forwarded to the gateways of a peer at a time, as that was given to
// [Board.Forward]: served if they have answered it, else they have failed it. A peer that fails several in a row gets
// nothing for a while, which grows, and then one request at a time, until that is served.
func (b *Board) End(now time.Duration, peer int, sent time.Duration, served bool) error {
	return b.change(func() bool { return b.peers[peer].outcomes.end(now, sent, served) })
}
