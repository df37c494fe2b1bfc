package prompt

// longStrings are positions of long strings in a body, in its order: of as many as there is room for. Their ends were
// found when the body was read, so that a chain need not search for them again.
type longStrings struct {
	list [4 * longEvery]longString
	n    int
}

// longString is the position of one.
type longString struct {
	quote uint32 // index of its opening quote
	end   uint32 // the index after its closing quote, times 2, and 1 more if it has escapes
}

const (
	minLong   = 64 // length in bytes of a string that is long, with its quotes
	longEvery = 32 // strings after which the shortest one that is noted doubles, because there may be many
	longest   = 1 << 31
)

// note takes a string if it is long.
func (l *longStrings) note(quote, end int, escaped bool) {
	if end-quote < minLong<<(l.n/longEvery) || l.n == len(l.list) || end >= longest {
		return
	}
	s := longString{uint32(quote), uint32(end) << 1}
	if escaped {
		s.end |= 1
	}
	l.list[l.n] = s
	l.n++
}

// find returns the index after the string whose opening quote is at quote, and whether it has escapes; 0 if it is not
// known. next is the index in the list of the first string that is not before the one that was looked for last.
func (l *longStrings) find(quote int, next *int) (end int, escaped bool) {
	for *next > 0 && int(l.list[*next-1].quote) >= quote {
		*next-- // fields, and roles, are not looked for in the order of the body
	}
	for *next < l.n && int(l.list[*next].quote) < quote {
		*next++
	}
	if *next == l.n || int(l.list[*next].quote) != quote {
		return 0, false
	}
	s := l.list[*next]
	return int(s.end >> 1), s.end&1 != 0
}
