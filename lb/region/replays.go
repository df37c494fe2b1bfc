package region

import (
	"errors"
	"time"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
)

// Replays knows which probes were answered, for all workers of a gateway: none of them is answered twice. It remembers
// who has sent them, for longer than the time of one is within [MaxSkew] however its sender's clock goes, and of each
// sender the latest ones: what is earlier is refused, and so are senders for which there is no room. Only what was
// signed with the secret is remembered, so a stranger cannot fill it.
//
// In shared memory it is a list of 24 bytes for each sender, little-endian:
//
//	4  the upper half of the nonces of its probes
//	4  the highest lower half so far
//	8  which of the 64 probes up to that were answered: bit i stands for the one i before it
//	8  when the sender may be forgotten, in ms since the Unix epoch
type Replays struct {
	kv  lb.KV
	key string
}

const (
	senderSize = 24
	maxSenders = 512 // 12 KB; the other 15 regions may have 34 gateways each
	// window is how many probes of one sender are told apart: more than are under way.
	window = 64
	// remembered is for how long a sender is, since its latest probe came: longer than twice [MaxSkew], after which no
	// probe of a clock that is ahead passes for a new one, and as long as [Replays.Askers] looks back.
	remembered = 30 * time.Second
)

// NewReplays returns what the workers know that use the same key of shared memory, which should exist before they run:
// see [lb.KV].
func NewReplays(kv lb.KV, key string) *Replays { return &Replays{kv, key} }

// swaps is how often a value of shared memory is tried to be changed while other workers change it.
const swaps = 8

// Take remembers a probe at a time since the Unix epoch. It returns ErrReplayed if the probe is remembered already, or
// cannot be.
func (s *Replays) Take(p *Route, wall time.Duration) error {
	for range swaps {
		val, cas, err := s.kv.Get(s.key)
		if err != nil && !errors.Is(err, lb.ErrNotFound) {
			return ErrReplayed
		}
		next, ok := remember(val, p.Nonce, wall)
		if !ok {
			return ErrReplayed
		}
		if err = s.kv.Set(s.key, next, cas); err == nil {
			return nil
		}
		if !errors.Is(err, lb.ErrMismatch) {
			return ErrReplayed
		}
	}
	return ErrReplayed
}

// askedLately is for how long one that has asked counts as one that asks at least.
const askedLately = 2 * time.Second

// Askers returns how many gateways have asked of late, at a time since the Unix epoch: within three intervals, since
// one or two of their probes may be lost.
func (s *Replays) Askers(wall, interval time.Duration) (n int) {
	list, _, err := s.kv.Get(s.key)
	if err != nil {
		return 0
	}
	lately := min(max(askedLately, 3*interval), remembered)
	from := uint64(max(0, wall+remembered-lately).Milliseconds())
	for at := 0; at+senderSize <= len(list); at += senderSize {
		if readSender(list, at).until >= from {
			n++
		}
	}
	return n
}

// sender is what is remembered of one.
type sender struct {
	id       uint32
	highest  uint32
	answered uint64
	until    uint64
}

func readSender(list []byte, at int) sender {
	return sender{
		wire.Uint32(list, at), wire.Uint32(list, at+4), wire.Uint64(list, at+8), wire.Uint64(list, at+16),
	}
}

// take remembers one of its probes. It returns false if that was answered, or if it is too early to know.
func (s *sender) take(number uint32) bool {
	if number > s.highest {
		s.answered = s.answered<<(number-s.highest) | 1 // 1 if none of the earlier ones is in the window
		s.highest = number
		return true
	}
	before := s.highest - number
	if before >= window || s.answered>>before&1 > 0 {
		return false
	}
	s.answered |= 1 << before
	return true
}

// remember returns the list with a nonce that has come now, without the senders that may be forgotten; false if the
// nonce is there, or if the list is full. It overwrites the list.
func remember(list []byte, nonce uint64, wall time.Duration) (next []byte, ok bool) {
	now, last := uint64(max(0, wall).Milliseconds()), uint64(max(0, wall+remembered).Milliseconds())
	id, number := uint32(nonce>>32), uint32(nonce)
	w := wire.Writer(list[:0])
	for at := 0; at+senderSize <= len(list); at += senderSize {
		s := readSender(list, at)
		switch {
		case s.id == id && s.until >= now:
			if ok = s.take(number); !ok {
				return nil, false
			}
			s.until = max(s.until, last)
		case s.until < now:
			continue
		}
		w = w.Uint32(s.id).Uint32(s.highest).Uint64(s.answered).Uint64(s.until)
	}
	if ok {
		return w, true
	}
	if len(w) >= maxSenders*senderSize {
		return nil, false
	}
	return w.Uint32(id).Uint32(number).Uint64(1).Uint64(last), true
}
