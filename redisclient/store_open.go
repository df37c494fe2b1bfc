package redisclient

import (
	"bytes"
	"slices"
	"time"
)

// open makes Redis know the view.
func (s *Store) open(now time.Duration, sc *scope, v *view) {
	s.seq++
	v.known, v.listed, v.opened, v.refused = now, now, s.seq, nil
	for _, cmd := range v.open {
		s.client.send(now, scriptOpen, &sc.home, cmd, false, func(now time.Duration, r Value, err error) {
			switch {
			case err != nil:
				v.known, v.refused = never, err
			case r.Int == 0:
				v.known = never
			case r.Int == opensMany && !sc.tidying:
				sc.tidying = true
				s.tidy(now, sc, []byte("0"), nil, maxSteps)
			}
		})
	}
}

const (
	// opensMany is what open.lua says when there are many rows that nobody may need.
	opensMany = 2
	// sweepLeast is how many rows are worth taking back, because all lists have to be sent again then, and sweepMost
	// how many are taken at once.
	sweepLeast, sweepMost = 64, 512
)

// tidy looks for the rows of endpoints that are idle and were on no list for a while, in one command after the other,
// and takes them back. over are those that were found. What fails is left to the next time.
func (s *Store) tidy(now time.Duration, sc *scope, cursor []byte, over []string, steps int) {
	s.sweep(now, sc, cursor, nil, func(now time.Duration, v Value, err error) {
		if err != nil || v.Kind != Array || len(v.Items) == 0 || len(v.Items[0].Str) > maxCursor {
			sc.tidying = false
			return
		}
		for _, item := range v.Items[1:] {
			over = append(over, string(item.Str))
		}
		more := string(v.Items[0].Str) != "0" && steps > 1
		if !more || len(over) >= sweepMost {
			if len(over) >= sweepLeast {
				for part := range slices.Chunk(over, most) {
					s.sweep(now, sc, nil, part, func(time.Duration, Value, error) {})
				}
			}
			over = nil
		}
		if sc.tidying = more; more {
			s.tidy(now, sc, bytes.Clone(v.Items[0].Str), over, steps-1)
		}
	})
}

// sweep takes the rows of endpoints back, and looks for more from the cursor on, unless that is empty.
func (s *Store) sweep(
	now time.Duration, sc *scope, cursor []byte, over []string, done func(time.Duration, Value, error),
) {
	b := scriptTidy.command(nil, 3, 2+len(over))
	b = appendArg(b, sc.keys.Table)
	b = appendArg(b, sc.keys.Rows)
	b = appendArg(b, sc.keys.Listed)
	b = appendArg(b, cursor)
	b = appendInt(b, int64(unlisted/time.Second))
	for _, addr := range over {
		b = appendArg(b, addr)
	}
	s.background(now, scriptTidy, sc, b, done)
}
