package redisclient

import (
	"bytes"
	"slices"
	"time"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
)

// The codes that reserve.lua returns in place of a candidate's index.
const (
	codeFull        = -1
	codeReleased    = -2
	codeUnknownList = -3
	codeWaits       = -4
	codeQueueFull   = -5
	codeHopeless    = -6
	codeOverBudget  = -7
	codeOtherCall   = -9
)

// reservationReply is the parsed answer of reserve.lua.
type reservationReply struct {
	code   int64 // the index of the chosen candidate, or one of the codes above
	grant  lb.Grant
	tokens int64 // what the lease counts for

	grants   []byte   // that others were given: see lua/queue.lua
	rows     []byte   // beside codeWaits, of the candidates: see reserve.lua
	stamp    string   // beside codeWaits, of the queue
	place    lb.Place // beside codeWaits
	expected time.Duration
}

// err returns why the reservation was refused.
func (reply reservationReply) err(r *reservation) error {
	switch {
	case reply.code == codeFull:
		return lb.ErrFull
	case reply.code == codeReleased:
		return lb.ErrReleased
	case reply.code == codeQueueFull:
		return lb.ErrQueueFull
	case reply.code == codeHopeless:
		return lb.ErrHopeless
	case r.list != nil && r.list.sendErr != nil:
		return r.list.sendErr
	}
	return ErrCandidatesLost
}

// parseReservationReply reads the answer to a reservation, unless err is set. It returns [ErrGarbage] for anything that
// reserve.lua cannot return.
func parseReservationReply(v Value, r *reservation, err error) (reply reservationReply, _ error) {
	var grants []byte
	if r.plan.Wait.Waits() && v.Kind == Array && len(v.Items) == 2 && v.Items[0].Kind == Bulk {
		v, grants = splitGrants(v, 1)
	}
	switch {
	case err != nil:
		return reply, err
	case v.Kind == Array && len(v.Items) == 1 && v.Items[0].Kind == Integer:
		if reply.code = v.Items[0].Int; reply.code < codeUnknownList || reply.code > codeFull {
			return reply, ErrGarbage
		}
		return reply, nil
	case v.Kind == Array && len(v.Items) == 2 && v.Items[0].Int == codeOverBudget && r.limits != nil:
		return parseOverBudget(v.Items[1].Str, r)
	case v.Kind == Array && len(v.Items) > 1 && v.Items[0].Kind == Integer && r.plan.Wait.Waits():
		return parseQueueReply(v)
	case v.Kind != Bulk:
		return reply, ErrGarbage
	}
	reply, ok := unpackGrant(v.Str, r)
	reply.grants = grants
	if !ok || int(reply.code) >= len(r.Candidates) || reply.grant.Load.Tokens < 0 || reply.grant.Cached > maxBlocks {
		return reply, ErrGarbage
	}
	return reply, nil
}

// unpackGrant reads the string that reserve.lua returns for a grant. It returns false if the string has another length.
func unpackGrant(b []byte, r *reservation) (reply reservationReply, ok bool) {
	in := wire.NewReader(b)
	index := in.Uint16()
	reply = reservationReply{code: int64(index), tokens: r.lease.tokens}
	reply.grant = lb.Grant{Index: int(index), Load: lb.Load{Requests: int64(in.Uint32()), Tokens: in.Int64()}}
	if r.chained() {
		reply.grant.Cached = r.order.leading(int(in.Byte()))
		reply.tokens = int64(in.Uint32())
	}
	if r.limits != nil {
		reply.grant.Left = unpackLeft(&in)
	}
	ok = in.OK() && in.Len() == 0
	if r.limits == nil && in.OK() && in.Len() == whySize { // else the lease was there already
		reply.grant.Why, ok = unpackWhy(&in, len(r.Candidates))
	}
	return reply, ok
}

// whySize is the size in bytes of why a candidate was chosen: see lua/reserve.lua.
const whySize = 11

// unpackWhy reads why one of so many candidates was chosen. It returns false if no choice can be for that.
func unpackWhy(in *wire.Reader[[]byte], candidates int) (lb.Why, bool) {
	const none = 65535
	w := lb.Why{Rule: lb.Rule(in.Byte()), RunnerUp: int(in.Uint16()), LostBy: in.Float64()}
	if w.RunnerUp == none {
		w.RunnerUp = lb.Full
	}
	ok := (w.Rule == lb.ByCost || w.Rule == lb.ByTie || w.Rule == lb.ByHome) && w.RunnerUp < candidates && w.LostBy >= 0
	w.LostBy = min(w.LostBy, lb.MaxLostBy)
	return w, ok
}

// parseQueueReply reads the answer to a reservation that waits, or that may not.
func parseQueueReply(v Value) (reply reservationReply, _ error) {
	size := 2
	if reply.code = v.Items[0].Int; reply.code == codeWaits {
		size = 3
	}
	v, reply.grants = splitGrants(v, size)
	items := v.Items
	switch {
	case len(items) != size:
	case reply.code == codeWaits && len(items[1].Str)%4 == 0 && len(items[2].Str) == 8+10:
		in := wire.NewReader(items[2].Str)
		reply.rows, reply.stamp = slices.Clone(items[1].Str), string(in.Take(8))
		reply.place = lb.Place{Came: in.Uint(6), Number: in.Uint32()}
		return reply, nil
	case (reply.code == codeQueueFull || reply.code == codeHopeless) && items[1].Int >= 0:
		reply.expected = milliseconds(items[1].Int)
		return reply, nil
	}
	return reply, ErrGarbage
}

// parseOverBudget reads the answer to a reservation that no candidate can take.
func parseOverBudget(b []byte, r *reservation) (reply reservationReply, _ error) {
	in := wire.NewReader(b)
	ms, index := in.Float64(), int(in.Uint16())
	reply = reservationReply{code: codeOverBudget, grant: lb.Grant{Index: index, Left: unpackLeft(&in)}}
	if !in.OK() || in.Len() > 0 || index >= len(r.Candidates) || !(ms >= 0) {
		return reply, ErrGarbage
	}
	reply.grant.Expected = milliseconds(int64(min(ms, maxExpected)))
	return reply, nil
}

// maxExpected bounds the time in ms in which a request is likely to be placed.
const maxExpected = 1 << 40

func milliseconds(n int64) time.Duration {
	return time.Duration(min(n, maxExpected)) * time.Millisecond
}

const (
	// newsSize is the size in bytes of one entry in the answer to a poll.
	newsSize = 25
	// ownerSize is the size in bytes of the name of an owner in front of what it was granted: see lua/queue.lua.
	ownerSize = 16
)

// splitGrants splits the answer of a script that has n items, or is no list if n is 1, from the grants that follow it
// if there are some. They belong to the caller.
func splitGrants(v Value, n int) (answer Value, grants []byte) {
	if v.Kind != Array || len(v.Items) != n+1 {
		return v, nil
	}
	grants = bytes.Clone(v.Items[n].Str)
	if n == 1 {
		return v.Items[0], grants
	}
	v.Items = v.Items[:n]
	return v, grants
}
