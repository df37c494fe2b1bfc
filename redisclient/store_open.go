package redisclient

import "time"

// open makes Redis know the view.
func (s *Store) open(now time.Duration, sc *scope, v *view) {
	s.seq++
	v.known, v.opened, v.refused = now, s.seq, nil
	for _, cmd := range v.open {
		s.client.send(now, scriptOpen, &sc.home, cmd, false, func(now time.Duration, r Value, err error) {
			switch {
			case err != nil:
				v.known, v.refused = never, err
			case r.Int == 0:
				v.known = never
			case r.Int == opensMany && !sc.tidying:
				sc.tidying = true
				s.tidy(now, sc, sc.wanted(now), []byte("0"), nil, maxSteps)
			}
		})
	}
}

// opensMany is what open.lua says when there are many rows that may be idle.
const opensMany = 2

// wanted returns the endpoints of the lists in use.
func (sc *scope) wanted(now time.Duration) map[string]bool {
	out := map[string]bool{}
	for _, v := range sc.views {
		if v.fresh(now) {
			for i := range v.candidates {
				out[v.candidates[i].Addr] = true
			}
		}
	}
	return out
}

// tidy takes the rows of endpoints that are idle and not wanted, in one command after the other: each takes those that
// the last one has found idle. What fails is left to the next time.
func (s *Store) tidy(now time.Duration, sc *scope, wanted map[string]bool, cursor []byte, over []string, steps int) {
	b := scriptTidy.command(nil, 2, 1+len(over))
	b = appendArg(b, sc.keys.Table)
	b = appendArg(b, sc.keys.Rows)
	b = appendArg(b, cursor)
	for _, addr := range over {
		b = appendArg(b, addr)
	}
	last := len(over) > 0 && string(cursor) == "0"
	s.background(now, scriptTidy, sc, b, func(now time.Duration, v Value, err error) {
		if err != nil || v.Kind != Array || len(v.Items) == 0 || len(v.Items[0].Str) > maxCursor || steps == 0 || last {
			sc.tidying = false
			return
		}
		over = nil
		for _, item := range v.Items[1:] {
			if addr := string(item.Str); !wanted[addr] {
				over = append(over, addr)
			}
		}
		cursor = append([]byte(nil), v.Items[0].Str...)
		if len(over) == 0 && string(cursor) == "0" {
			sc.tidying = false
			return
		}
		s.tidy(now, sc, wanted, cursor, over, steps-1)
	})
}
