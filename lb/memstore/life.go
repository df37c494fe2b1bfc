package memstore

import (
	"strconv"
	"time"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
)

// While requests of an owner wait, it writes at each poll, and when one begins to wait, that it is there: the owner and
// the time, 8 bytes each, in nanoseconds, under a key of its own. What an owner is granted that shows no life is given
// to others until it does: see [lb.Silence]. Who has no such value counts as alive until its heartbeats are missed:
// it is of a version that does not write it.

func lifeKey(index int) string { return keyPrefix + "life/" + strconv.Itoa(index) }

// silences is which other owners are silent, as far as a step of this owner has had to know.
type silences struct {
	kv    lb.KV
	self  uint64
	known []silence
}

type silence struct {
	owner    uint64
	isSilent bool
}

// of reports whether the owner is silent.
func (s *silences) of(owner uint64, now time.Duration, t table) bool {
	for _, k := range s.known {
		if k.owner == owner {
			return k.isSilent
		}
	}
	k := silence{owner: owner}
	if m := t.memberOf(owner); m >= 0 && owner != s.self {
		val, _, err := s.kv.Get(lifeKey(t.member(m).index()))
		k.isSilent = err == nil && len(val) == 16 && wire.Uint64(val, 0) == owner &&
			now-wire.Duration(val, 8) > lb.Silence
	}
	s.known = append(s.known, k)
	return k.isSilent
}
