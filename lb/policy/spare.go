package policy

import (
	"slices"

	"github.com/warmgate/warmgate/lb"
)

// spareCost is above the cost of any candidate that is not a spare one: an hour of latency times a million requests in
// flight. Above it costs still differ by a thousandth.
const spareCost = 1 << 40

// withSpares returns the candidates in front and, behind them, those that only the wider lists have, each list at a
// cost above any before it: they are chosen only when all in front are full, so that no request is refused while
// another candidate has room. Where no candidate has a cap none is ever full, and front is all there is.
func withSpares(front []lb.Candidate, wider ...[]lb.Candidate) []lb.Candidate {
	if !slices.ContainsFunc(front, func(c lb.Candidate) bool { return c.Cap > 0 || c.TokenCap > 0 }) {
		return front
	}
	out := slices.Clip(front)
	for i, list := range wider {
		for _, c := range list {
			if !slices.ContainsFunc(out, func(o lb.Candidate) bool { return o.Addr == c.Addr }) {
				c.Base += float64(i+1) * spareCost
				out = append(out, c)
			}
		}
	}
	return out
}
