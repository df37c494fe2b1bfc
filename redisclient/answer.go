package redisclient

import (
	"encoding/binary"
	"errors"

	"github.com/warmgate/warmgate/lb"
)

// The answers of reserve.lua that are no candidate.
const (
	answerFull     = -1
	answerReleased = -2
	answerUnopened = -3
)

// answer is what reserve.lua says.
type answer struct {
	code   int64 // the candidate, or one of the constants above
	grant  lb.Grant
	tokens int64 // that the lease counts for
}

// answerOf reads the answer to a reservation.
func answerOf(v Value, r *reservation, err error) (a answer, _ error) {
	size := 14
	if r.script == scriptPrompt {
		size = 19
	}
	switch {
	case err != nil:
		return a, err
	case v.Kind == Array && len(v.Items) == 1 && v.Items[0].Kind == Integer:
		if a.code = v.Items[0].Int; a.code < answerUnopened || a.code > answerFull {
			return a, ErrGarbage
		}
		return a, nil
	case v.Kind != Bulk || len(v.Str) != size:
		return a, ErrGarbage
	}
	a.code = int64(binary.LittleEndian.Uint16(v.Str))
	a.grant = lb.Grant{Index: int(a.code), Load: lb.Load{
		Requests: int64(binary.LittleEndian.Uint32(v.Str[2:])), Tokens: int64(binary.LittleEndian.Uint64(v.Str[6:])),
	}}
	a.tokens = r.lease.tokens
	if r.script == scriptPrompt {
		a.grant.Cached, a.tokens = int(v.Str[14]), int64(binary.LittleEndian.Uint32(v.Str[15:]))
	}
	if int(a.code) >= len(r.candidates) || a.grant.Load.Tokens < 0 || a.grant.Cached > maxBlocks {
		return a, ErrGarbage
	}
	return a, nil
}

// uncertain says whether a command that failed in this way may have been carried out, or may be still.
func uncertain(err error) bool {
	_, refused := err.(*ReplyError)
	return !refused && !errors.Is(err, lb.ErrFull) && !errors.Is(err, lb.ErrReleased) &&
		!errors.Is(err, ErrUnopened) && !errors.Is(err, ErrOpen)
}
