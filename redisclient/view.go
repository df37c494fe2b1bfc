package redisclient

import (
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/lb"
)

const (
	// viewTTL is how long Redis remembers a list of candidates that nobody uses.
	viewTTL = 10 * time.Second
	// viewTrust is how long after it was last heard of a list is taken to be known there.
	viewTrust = 8 * time.Second
	// relist is how long after it was sent a list in use is sent again. Rows that were on no list for the time unlisted
	// may be given to other endpoints: that is longer than relist and viewTrust together.
	relist, unlisted = time.Minute, 2 * time.Minute
	// viewLayout is the version of what a list is in Redis: another one has other keys.
	viewLayout = 1
	// viewsKept is how many lists a scope has at hand. Several are in use when configurations
	// differ or have just changed, and with endpoint_metrics one for each LoRA adapter.
	viewsKept = 32
	// most is how many endpoints one command names. More are named by several, so that others get their turn between
	// them.
	most = 128
)

// view is a list of candidates as Redis knows it: under a key of its own, so that a reservation need not carry it.
type view struct {
	candidates []lb.Candidate
	key        string
	open       [][]byte      // the commands that make Redis know it
	known      time.Duration // when Redis was last told, or said, that it has it; never if it has not
	opened     uint64        // when it was told: a number of the store's sequence
	listed     time.Duration // the time of that
	refused    error         // what it said to that
	used       bool          // since the last beat
}

// never is the time of what has not happened.
const never time.Duration = -1

// view returns the view of the candidates. They are shared between plans and never changed, so that it is mostly enough
// to look at where they are; a list of the same content is the same view.
func (sc *scope) view(cs []lb.Candidate, owner string) *view {
	for i, v := range sc.views {
		if len(v.candidates) == len(cs) && &v.candidates[0] == &cs[0] {
			if i > 0 {
				copy(sc.views[1:i+1], sc.views[:i])
				sc.views[0] = v
			}
			return v
		}
	}
	v := newView(sc, cs, owner)
	for _, known := range sc.views {
		if known.key == v.key {
			known.candidates = cs
			return known
		}
	}
	if len(sc.views) < viewsKept {
		sc.views = append(sc.views, nil)
	}
	copy(sc.views[1:], sc.views)
	sc.views[0] = v
	return v
}

// forget makes the scope send its views again: Redis has lost them.
func (sc *scope) forget() {
	for _, v := range sc.views {
		v.known = never
	}
}

// fresh says whether Redis can be taken to know the view, and to keep the rows of its endpoints.
func (v *view) fresh(now time.Duration) bool {
	return v.known >= 0 && now-v.known < viewTrust && now >= v.known && now-v.listed < relist
}

// terms is what candidates of one class have in common. NaN has no place in a plan, so they can be compared.
type terms struct{ base, slope, weight, limit, room, steep float64 }

func newView(sc *scope, cs []lb.Candidate, owner string) *view {
	classes, members := pack(cs)
	var hashes []byte
	for i := range cs {
		hashes = binary.LittleEndian.AppendUint32(hashes, lb.EndpointTag(cs[i].Addr))
	}
	h := xxhash.NewWithSeed(viewLayout)
	_, _ = h.Write(classes)
	_, _ = h.Write(members)
	_, _ = h.Write(hashes)
	for i := range cs {
		_, _ = h.WriteString(cs[i].Addr)
		_, _ = h.WriteString("\n")
	}
	v := &view{candidates: cs, known: never, key: sc.keys.View + strconv.FormatUint(h.Sum64(), 36)}
	v.open = v.commands(sc, owner, classes, hashes, members)
	return v
}

// commands returns what makes Redis know the view: one command for each part of the list.
func (v *view) commands(sc *scope, owner string, classes, hashes, members []byte) (cmds [][]byte) {
	keys := []string{sc.keys.Table, sc.keys.Rows, sc.keys.Owners, sc.keys.Own, sc.keys.Listed}
	var parts []string
	for from := 0; from < len(v.candidates); from += most {
		part := v.candidates[from:min(from+most, len(v.candidates))]
		mine := append(slices.Clone(keys), sc.keys.Part+v.key[len(sc.keys.View):]+":"+strconv.Itoa(from/most))
		last := from+most >= len(v.candidates)
		if last {
			mine = append(append(slices.Clone(keys), v.key), parts...)
		} else {
			parts = append(parts, mine[len(keys)])
		}
		b := scriptOpen.command(nil, len(mine), 6+len(part))
		for _, key := range mine {
			b = appendArg(b, key)
		}
		b = appendArg(b, owner)
		b = appendInt(b, keep.Milliseconds())
		b = appendInt(b, viewTTL.Milliseconds())
		if last {
			b = appendArg(b, classes)
			b = appendArg(b, hashes)
		} else {
			b = appendArg(appendArg(b, ""), "")
		}
		b = appendArg(b, members[2*from:2*(from+len(part))])
		for i := range part {
			b = appendArg(b, part[i].Addr)
		}
		cmds = append(cmds, b)
	}
	return cmds
}

// pack writes the candidates as open.lua wants them: the classes, and for each candidate the number of its class.
func pack(cs []lb.Candidate) (classes, members []byte) {
	number := map[terms]uint16{}
	for i := range cs {
		t := terms{cs[i].Base, cs[i].Slope, cs[i].Weight, float64(max(cs[i].Cap, 0)), math.Inf(1), 0}
		if cs[i].OverSlope > 0 {
			t.room, t.steep = cs[i].Capacity, cs[i].OverSlope
		}
		n, ok := number[t]
		if !ok {
			n = uint16(len(number))
			number[t] = n
			for _, f := range []float64{t.base, t.slope, t.weight, t.limit, t.room, t.steep} {
				classes = binary.LittleEndian.AppendUint64(classes, math.Float64bits(f))
			}
		}
		members = binary.LittleEndian.AppendUint16(members, n)
	}
	return classes, members
}
