package redisclient

import (
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
)

const (
	// listTTL is how long Redis keeps a list of candidates that no heartbeat renews.
	listTTL = 10 * time.Second
	// listTrust is how long after Redis was last known to have a list it is assumed to have it still.
	listTrust = 8 * time.Second
	// resendAfter is how long after it was sent a list in use is sent again, which marks its rows as listed.
	// rowIdleTime is how long a row must not have been listed before it may be freed: longer than resendAfter and
	// listTrust together.
	resendAfter, rowIdleTime = time.Minute, 2 * time.Minute
	// listLayout is the version of a list's format in Redis: lists of another version have other keys.
	listLayout = 2
	// maxLists is how many lists of a scope are kept, those used last. Several are in use while configurations differ
	// or have just changed, and with endpoint_metrics one for each LoRA adapter.
	maxLists = 32
	// endpointsPerCommand is how many endpoints one command names. More are split over several commands, so that Redis
	// can run other commands in between.
	endpointsPerCommand = 128
)

// candidateList is a list of candidates that Redis stores under a key of its own, so that a reservation need not
// contain it.
type candidateList struct {
	lb.List
	limits    []budget.Limits // of each candidate, nil without budgets
	key       string
	commands  [][]byte      // that store the list in Redis
	knownAt   time.Duration // when Redis was last known to have the list, never if it does not
	sentSeq   uint64        // when it was last sent, by owner.seq
	sentAt    time.Duration // the time of that
	sendErr   error         // how Redis refused it
	used      bool          // by a reservation since the last heartbeat
	endpoints uint32        // digest of the endpoints, whatever their order
}

// classSize is the length of a class in a list.
const classSize = 56

// never is a time before all others.
const never time.Duration = -1

// candidateLists are the lists of a scope, those used last first.
type candidateLists struct {
	at          *place
	all         []*candidateList
	freeingRows bool // a search for unused rows is in progress
}

// use returns the list of the candidates for a command that names it. If Redis may not know the list, it is sent first.
func (ls *candidateLists) use(now time.Duration, cs lb.List, limits []budget.Limits) *candidateList {
	l := ls.list(cs, limits)
	l.used = true
	if !l.isKnown(now) {
		ls.sendList(now, l)
	}
	return l
}

// list returns the list of the candidates, and of their budgets if there are some. What differs in nothing that Redis
// gets to know is the same list there.
func (ls *candidateLists) list(cs lb.List, limits []budget.Limits) *candidateList {
	for i, l := range ls.all {
		if l.Digest() == cs.Digest() && slices.Equal(l.limits, limits) {
			if i > 0 {
				copy(ls.all[1:i+1], ls.all[:i])
				ls.all[0] = l
			}
			return l
		}
	}
	l := newCandidateList(ls.at, cs, limits)
	for _, known := range ls.all {
		if known.key == l.key {
			known.List, known.limits = cs, limits
			return known
		}
	}
	if len(ls.all) < maxLists {
		ls.all = append(ls.all, nil)
	}
	copy(ls.all[1:], ls.all)
	ls.all[0] = l
	return l
}

// takeUsed returns the lists that were used since the last call.
func (ls *candidateLists) takeUsed() (lists []*candidateList) {
	for _, l := range ls.all {
		if l.used {
			lists = append(lists, l)
			l.used = false
		}
	}
	return lists
}

// forget has the lists sent again, because Redis has lost one.
func (ls *candidateLists) forget() {
	for _, l := range ls.all {
		l.knownAt = never
	}
}

// isKnown reports whether Redis can be assumed to have the list, and to keep the rows of its endpoints.
func (l *candidateList) isKnown(now time.Duration) bool {
	return l.knownAt >= 0 && now-l.knownAt < listTrust && now >= l.knownAt && now-l.sentAt < resendAfter
}

// sendList stores the list in Redis.
func (ls *candidateLists) sendList(now time.Duration, l *candidateList) {
	ls.at.seq++
	l.knownAt, l.sentAt, l.sentSeq, l.sendErr = now, now, ls.at.seq, nil
	for _, cmd := range l.commands {
		ls.at.client.send(now, scriptCandidates, &ls.at.node, cmd, false, func(now time.Duration, v Value, err error) {
			switch {
			case err != nil:
				l.knownAt, l.sendErr = never, err
			case v.Int == 0:
				l.knownAt = never
			case v.Int == codeManyIdleRows && !ls.freeingRows:
				ls.freeingRows = true
				ls.freeRows(now, []byte("0"), nil, maxSteps)
			}
		})
	}
}

// candidateClass is what candidates of a list may have in common: all but the address. A plan contains no NaN, so
// classes can be compared.
type candidateClass struct{ base, slope, weight, cap, capacity, overSlope, tokenCap float64 }

// newCandidateList returns the list of the candidates. Its key is a digest of its content.
func newCandidateList(at *place, list lb.List, limits []budget.Limits) *candidateList {
	cs := list.Candidates
	classes, members := packClasses(cs)
	if limits != nil || len(cs) == 0 { // all that matters of them is in budgets; what has no class is a part of a list
		classes, members = make(wire.Writer, classSize), make(wire.Writer, 2*len(cs))
	}
	var hashes wire.Writer
	endpoints := uint32(0)
	for i := range cs {
		h := lb.EndpointHash(cs[i].Addr)
		hashes = hashes.Uint32(uint32(h))
		endpoints += uint32(h>>32) * uint32(h|1)
	}
	budgets := packBudgets(cs, limits)
	h := xxhash.NewWithSeed(listLayout)
	_, _ = h.Write(classes)
	_, _ = h.Write(members)
	_, _ = h.Write(hashes)
	for i := range cs {
		_, _ = h.WriteString(cs[i].Addr)
		_, _ = h.WriteString("\n")
	}
	_, _ = h.Write(budgets)
	l := &candidateList{List: list, limits: limits, knownAt: never, endpoints: endpoints}
	l.key = at.keys.Candidates + strconv.FormatUint(h.Sum64(), 36)
	l.commands = l.buildCommands(at, classes, hashes, members, budgets)
	return l
}

// buildCommands returns the commands that store the list: one for each part of it. The last one puts the parts
// together.
func (l *candidateList) buildCommands(at *place, classes, hashes, members, budgets []byte) (cmds [][]byte) {
	keys := []string{at.keys.Table, at.keys.Rows, at.keys.Owners, at.keys.Leases, at.keys.Listed}
	digest := l.key[len(at.keys.Candidates):]
	var parts []string
	for from := 0; from == 0 || from < len(l.Candidates); from += endpointsPerCommand {
		to := min(from+endpointsPerCommand, len(l.Candidates))
		named := append(slices.Clone(keys), at.keys.CandidatesPart+digest+":"+strconv.Itoa(from/endpointsPerCommand))
		var c, h, b []byte // classes, hashes and budgets are in the last part only
		if to == len(l.Candidates) {
			named = append(append(slices.Clone(keys), l.key), parts...)
			c, h, b = classes, hashes, budgets
		} else {
			parts = append(parts, named[len(keys)])
		}
		part := l.Candidates[from:to]
		cmds = append(cmds, candidatesCommand(named, at.owner.name, c, h, members[2*from:2*to], b, part))
	}
	return cmds
}

// candidatesCommand returns a command that stores a part of a list.
func candidatesCommand(
	keys []string, owner string, classes, hashes, members, budgets []byte, part []lb.Candidate,
) []byte {
	b := scriptCandidates.command(nil, len(keys), 7+len(part))
	for _, key := range keys {
		b = appendArg(b, key)
	}
	b = appendArg(b, owner)
	b = appendInt(b, dataTTL.Milliseconds())
	b = appendInt(b, listTTL.Milliseconds())
	b = appendArg(appendArg(appendArg(appendArg(b, classes), hashes), members), budgets)
	for i := range part {
		b = appendArg(b, part[i].Addr)
	}
	return b
}

// packClasses returns the classes of the candidates, and for each candidate the index of its class, in the formats of
// candidates.lua. A candidate without a capacity gets an infinite one.
func packClasses(cs []lb.Candidate) (classes, members wire.Writer) {
	index := map[candidateClass]uint16{}
	for i := range cs {
		c := candidateClass{
			base: cs[i].Base, slope: cs[i].Slope, weight: cs[i].Weight, capacity: math.Inf(1),
			cap: requestCap(&cs[i]), tokenCap: tokenCap(&cs[i]),
		}
		if cs[i].OverSlope > 0 {
			c.capacity, c.overSlope = cs[i].Capacity, cs[i].OverSlope
		}
		n, ok := index[c]
		if !ok {
			n = uint16(len(index))
			index[c] = n
			classes = classes.Float64(c.base).Float64(c.slope).Float64(c.weight).Float64(c.cap).
				Float64(c.capacity).Float64(c.overSlope).Float64(c.tokenCap)
		}
		members = members.Uint16(n)
	}
	return classes, members
}
