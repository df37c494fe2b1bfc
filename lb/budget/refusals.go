package budget

import "slices"

// Refusal is a request that no target could take and that is expected to ask again. As long as it is, a part of what
// it needs is set aside at the target that was expected to take it first.
type Refusal struct {
	Key     uint64  // by which it asks again
	Since   float64 // when it was first refused, in ms
	Expires float64 // when it is not expected any more, in ms
	Tokens  float64 // that it needs; 0 while they are of no use to it: it waits at its caller's share
	Row     int     // of the target, in the store's numbers
}

// Refusals are those that are remembered, in the order in which they came, at most [MaxRefusals].
type Refusals []Refusal

// isAtShare reports whether it waits at its caller's share.
func (r Refusal) isAtShare() bool { return r.Tokens == 0 }

// MaxRefusals is how many refusals are remembered. By the simulation in this package the largest requests wait for too
// long if this is much less than the number of those that wait.
const MaxRefusals = 64

// Find returns the number of the refusal with the key, as many as there are if there is none.
func (rs Refusals) Find(key uint64) int {
	for i := range rs {
		if rs[i].Key == key {
			return i
		}
	}
	return len(rs)
}

// Expire returns those that are still expected at now. Those of a time to come are not: the clock was set back.
func (rs Refusals) Expire(now float64) Refusals {
	kept := rs[:0]
	for i := range rs {
		if now < rs[i].Expires && now > rs[i].Since-clockStep {
			kept = append(kept, rs[i])
		}
	}
	return kept
}

// Ahead is the refusals before a request that are expected to ask at a target again.
type Ahead struct {
	Count   int     // of those that have room in their callers' shares, or have none
	AtShare int     // of the others: they are before those that wait at a share themselves
	Growth  float64 // how many more tokens will be set aside for them in asideSoon ms, when the request may ask again
}

const asideSoon = 1000

// Aside returns how many tokens are set aside at now for the first n refusals at the target with the row, whose bucket
// holds rate tokens: bonus tokens for each second since they came, up to what they need. And it returns what is ahead
// of who comes behind them.
func (rs Refusals) Aside(now float64, n, row int, rate, bonus float64) (aside float64, a Ahead) {
	for i := range rs[:n] {
		if r := &rs[i]; r.Row == row {
			tokens := Aside(r.Tokens, rate, now-r.Since, bonus)
			aside += tokens
			if r.isAtShare() {
				a.AtShare++
			} else {
				a.Count++
			}
			a.Growth += Aside(r.Tokens, rate, now-r.Since+asideSoon, bonus) - tokens
		}
	}
	return aside, a
}

// Aside returns how many tokens are set aside for a request of so many tokens that has waited for so many ms.
func Aside(tokens, rate, waited, bonus float64) float64 {
	if rate > 0 {
		tokens = min(tokens, rate)
	}
	return min(tokens, bonus*max(0, waited)/1000)
}

// HasRoom reports whether one more is remembered that waits at its caller's share, or that does not.
func (rs Refusals) HasRoom(atShare bool) bool {
	return len(rs) < MaxRefusals || !atShare && slices.ContainsFunc(rs, Refusal.isAtShare)
}

// Remember returns the refusals with one more, or with what is known of it now if it is among them. There may be too
// many: then one that waits at its caller's share, which keeps it from being placed anyway, makes room for one that
// does not, or it is not remembered.
func (rs Refusals) Remember(r *Refusal) Refusals {
	if i := rs.Find(r.Key); i < len(rs) {
		since := rs[i].Since
		rs[i] = *r
		rs[i].Since = since
		return rs
	}
	if !rs.HasRoom(r.isAtShare()) {
		return rs
	}
	if len(rs) == MaxRefusals {
		latest := len(rs) - 1
		for !rs[latest].isAtShare() {
			latest--
		}
		rs = slices.Delete(rs, latest, latest+1)
	}
	return append(rs, *r)
}

// Forget returns the refusals without the one with the key.
func (rs Refusals) Forget(key uint64) Refusals {
	if i := rs.Find(key); i < len(rs) {
		return append(rs[:i], rs[i+1:]...)
	}
	return rs
}
