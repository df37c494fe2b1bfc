package redisclient

import (
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
	switch {
	case err != nil:
		return a, err
	case v.Kind != Array || len(v.Items) == 0:
		return a, ErrGarbage
	}
	for _, item := range v.Items {
		if item.Kind != Integer {
			return a, ErrGarbage
		}
	}
	items := 3
	if r.script == scriptPrompt {
		items = 5
	}
	a.code = v.Items[0].Int
	switch {
	case a.code < answerUnopened || a.code >= int64(len(r.candidates)) || a.code >= 0 && len(v.Items) != items:
		return a, ErrGarbage
	case a.code < 0:
		return a, nil
	}
	a.grant = lb.Grant{Index: int(a.code), Load: lb.Load{Requests: v.Items[1].Int, Tokens: v.Items[2].Int}}
	a.tokens = r.lease.tokens
	if r.script == scriptPrompt {
		a.grant.Cached, a.tokens = int(v.Items[3].Int), v.Items[4].Int
		if v.Items[3].Int < 0 || v.Items[3].Int > maxBlocks || a.tokens != clamp(a.tokens) {
			return a, ErrGarbage
		}
	}
	return a, nil
}

// uncertain says whether a command that failed in this way may have been carried out, or may be still.
func uncertain(err error) bool {
	_, refused := err.(*ReplyError)
	return !refused && !errors.Is(err, lb.ErrFull) && !errors.Is(err, lb.ErrReleased) &&
		!errors.Is(err, ErrUnopened) && !errors.Is(err, ErrOpen)
}
