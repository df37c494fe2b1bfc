package region

import (
	"errors"
	"time"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
)

// Replays knows which probes were answered, for all workers of a gateway: none of them is answered twice. It remembers
// each for as long as its time is within [MaxSkew], and so many at most; more are refused. Only what was signed with
// the secret is remembered, so a stranger cannot fill it.
//
// In shared memory it is a list of 16 bytes for each probe: its nonce, and when it may be forgotten, in ms since the
// Unix epoch.
type Replays struct {
	kv  lb.KV
	key string
}

const (
	replaySize = 16
	maxReplays = 2048 // three regions with four gateways each make about 800 in 20 s, at five a second
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
		next, ok := remember(val, p.Nonce, p.At+MaxSkew, wall)
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

// remember returns the list with a nonce, without those that may be forgotten; false if the nonce is there, or if the
// list is full. It overwrites the list.
func remember(list []byte, nonce uint64, until, wall time.Duration) (next []byte, ok bool) {
	now := uint64(max(0, wall).Milliseconds())
	kept := 0
	for at := 0; at+replaySize <= len(list); at += replaySize {
		if wire.Uint64(list, at+8) < now {
			continue
		}
		if wire.Uint64(list, at) == nonce {
			return nil, false
		}
		kept += copy(list[kept:], list[at:at+replaySize])
	}
	if kept >= maxReplays*replaySize {
		return nil, false
	}
	return wire.Writer(list[:kept]).Uint64(nonce).Uint64(uint64(until.Milliseconds())), true
}
