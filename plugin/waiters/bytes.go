package waiters

import (
	"cmp"
	"slices"
	"strings"
)

// A VM holds the bodies of its waiting requests, up to its part of queue.max_bytes. When that is used up, the tenant
// that holds most makes room for others: its youngest requests leave, as out of a full queue. Each such step takes from
// the one with most for one that then has less than that, so no two tenants take room from each other in turns.

// maxLeaving is how many requests leave for one at most.
const maxLeaving = 64

// holder is who holds bytes: tenants of one cluster are others than those of another one.
type holder struct {
	Scope string
	Turn  uint64
}

func (h holder) compare(o holder) int {
	return cmp.Or(cmp.Compare(h.Turn, o.Turn), strings.Compare(h.Scope, o.Scope))
}

// pick is what may leave of one holder.
type pick struct {
	of    holder
	most  int       // how many bytes it holds, without those of the ones that leave
	leave []*Waiter // its youngest requests of its lowest class first
}

// limitOf returns how much this VM may hold by the configuration of the request.
func (w *Waiters) limitOf(s *Waiter) int { return s.Config.Queue.MaxBytes / w.Owners }

// roomFor returns the requests that leave for the request to be held with n bytes, none if there is room, and false if
// it must not be held. If VMs have come since, and each has a smaller part, nobody leaves because of that.
func (w *Waiters) roomFor(s *Waiter, n int) (leave []*Waiter, ok bool) {
	counted := w.Held[s]
	own := w.of[s.holder] - counted
	missing := n - max(0, w.limitOf(s)-(w.Bytes-counted))
	if missing <= 0 {
		return nil, true
	}
	picks := w.picks(s.holder, own+n, missing)
	for missing > 0 {
		p := mostOf(picks)
		if p == nil || own+n >= p.most || len(leave) == maxLeaving {
			return nil, false
		}
		if len(p.leave) == 0 { // the others of it may yet be granted an endpoint at once
			p.most = 0
			continue
		}
		next := p.leave[0]
		p.leave, p.most = p.leave[1:], p.most-w.Held[next]
		if own > 0 && own+n > p.most {
			return nil, false
		}
		missing -= w.Held[next]
		leave = append(leave, next)
	}
	return leave, true
}

// mostOf returns the pick of whom most is held, of several the first, nil for none.
func mostOf(picks []pick) (most *pick) {
	for i := range picks {
		p := &picks[i]
		if most == nil || p.most > most.most {
			most = p
		}
	}
	return most
}

// picks returns what may leave of those that hold more than so much, but of the given one: nothing if all that these
// hold would not do. It looks at each request that waits once.
func (w *Waiters) picks(except holder, above, missing int) (picks []pick) {
	all := 0
	for of, n := range w.of {
		if n > above && of != except {
			picks = append(picks, pick{of: of, most: n})
			all += n
		}
	}
	if all < missing {
		return nil
	}
	slices.SortFunc(picks, func(a, b pick) int { return a.of.compare(b.of) })
	for s, n := range w.Held {
		by := func(p pick, of holder) int { return p.of.compare(of) }
		i, ok := slices.BinarySearchFunc(picks, s.holder, by)
		if ok && n > 0 {
			picks[i].add(s)
		}
	}
	return picks
}

// add adds a request if it is among the first to leave, and waits: in Redis it may only wait for an answer.
func (p *pick) add(s *Waiter) {
	full := len(p.leave) == maxLeaving
	if full && leavesBefore(p.leave[maxLeaving-1], s) <= 0 || s.Redis && !s.inQueue() {
		return
	}
	if full {
		p.leave = p.leave[:maxLeaving-1]
	}
	at, _ := slices.BinarySearchFunc(p.leave, s, leavesBefore)
	p.leave = slices.Insert(p.leave, at, s)
}

// leavesBefore compares by which of two requests leaves first: the one of the lower class, the younger one.
func leavesBefore(a, b *Waiter) int {
	return cmp.Or(cmp.Compare(b.Rank, a.Rank), cmp.Compare(b.Since, a.Since), cmp.Compare(b.ID, a.ID))
}

// MayHold reports whether one more request that waits may be held, with n bytes. In Redis it waits only once that has
// answered, and nobody leaves before: until then a quarter more may be held, or this one.
func (w *Waiters) MayHold(s *Waiter, n int) bool {
	limit := w.limitOf(s)
	_, ok := w.roomFor(s, n)
	alone := len(w.Beyond) == 0 || len(w.Beyond) == 1 && w.Beyond[0] == s
	return ok && (alone || w.Bytes-w.Held[s]+n <= limit+limit/4)
}

// Add notes that a request waits, of which n bytes are held, and has others leave for it: unless it is planned anew,
// and so was held before.
func (w *Waiters) Add(s *Waiter, n int, again bool) {
	w.count(s, n)
	if !s.Redis {
		s.Cluster.Waiting++
	}
	switch {
	case again:
	case !s.Redis:
		w.makeRoom(s, n)
	case n > 0:
		w.noteBeyond(s)
	}
}

// noteBeyond notes that the request may be held beyond the room there is.
func (w *Waiters) noteBeyond(s *Waiter) {
	if w.Bytes > w.limitOf(s) && !slices.Contains(w.Beyond, s) {
		w.Beyond = append(w.Beyond, s)
	}
}

// makeRoom has others leave for the request to be held with n bytes. It returns false if it must not be held.
func (w *Waiters) makeRoom(s *Waiter, n int) bool {
	leave, ok := w.roomFor(s, n)
	for _, other := range leave {
		w.RunAs(other.Context, "room for another request", other.Callee.GiveWay, other.Callee.GrantRecovered)
	}
	return ok
}

// Grow notes that more of the body of a request is held: size bytes in all. It returns false if that is too much.
func (w *Waiters) Grow(s *Waiter, size int) bool {
	n, ok := w.Held[s]
	more := size - n
	if !ok || more <= 0 {
		return true
	}
	if s.Redis && !s.inQueue() {
		if ok = w.MayHold(s, size); ok {
			w.count(s, more)
			w.noteBeyond(s)
		}
		return ok
	}
	ok = w.makeRoom(s, size)
	if _, held := w.Held[s]; ok && held { // else its wait ended when others left
		w.count(s, more)
	}
	return ok
}

// settle has requests leave for those that were held beyond the room there is and wait in Redis by now.
func (w *Waiters) settle() {
	if len(w.Beyond) == 0 {
		return
	}
	beyond := w.Beyond
	w.Beyond = nil
	for _, s := range beyond {
		n, ok := w.Held[s]
		switch {
		case !ok: // it waits no longer
		case !s.inQueue():
			w.Beyond = append(w.Beyond, s)
		case !w.makeRoom(s, n):
			w.RunAs(s.Context, "room for other requests", s.Callee.GiveWay, s.Callee.GrantRecovered)
		}
	}
}

// count counts n more bytes of a request.
func (w *Waiters) count(s *Waiter, n int) {
	w.Held[s] += n
	w.Bytes += n
	w.of[s.holder] += n
}

// Remove notes that a request waits no longer, if it did.
func (w *Waiters) Remove(s *Waiter) {
	n, ok := w.Held[s]
	if !ok {
		return
	}
	w.count(s, -n)
	delete(w.Held, s)
	if w.of[s.holder] == 0 {
		delete(w.of, s.holder)
	}
	if !s.Redis {
		s.Cluster.Waiting--
	}
}
