package prompt

import (
	"hash"
	"slices"

	"github.com/dchest/siphash"

	"github.com/warmgate/warmgate/internal/jsontext"
)

// LongBody reads a request body that is too long to be kept, in parts as they come. It keeps a shorter body that means
// the same to a reader of its beginning: every member that is not text for the model, wherever it stands; what chat
// templates print in front of a conversation; and as much of the rest of the prompt as is kept of any body. Members are
// told from each other by quotes and brackets alone. What it returns does not depend on where the parts begin.
//
// It keeps at most twice as many bytes as are kept of a prompt, twice [smallBytes] for the other members, and [minText]
// of each text behind those. A body that has a member twice is not read any further.
type LongBody struct {
	state   longState
	inside  bool // a string
	escape  bool // the next byte belongs to an escape
	depth   int  // of the current value
	pos     int  // bytes read so far
	tokens  int  // strings and brackets so far, members counted as tokensOfMember
	weight  int  // of each of them
	kept    []byte
	members []keptMember
	latest  keptMember // the current one
	seen    fieldSet   // members that have begun
	room    int        // for the value of the current one
	left    [kinds]int // for members of each kind
	skipped int        // bytes of pictures, and of members that are left out but for the prompt's
	unsure  bool       // a name that keys depend on is too long
	begin   int        // index in kept of the latest string in a value, as far as all of that is kept
	digest  hash.Hash  // of a picture
	picture bool       // the string is one, of which no more is kept
	data    int        // bytes of it so far
	size    byte       // its class
	// byLength says that its length decides about that.
	byLength bool
}

// keptMember is where a member is in kept.
type keptMember struct {
	field field
	kind  memberKind
	key   int // its beginning
	value int
	end   int
	bytes int  // of the member in the body
	cut   bool // there is more of the value than was kept
}

// memberKind is what a member is kept for.
type memberKind uint8

const (
	kindOther  memberKind = iota // perhaps a session's key
	kindOption                   // a name, a limit or an option
	kindLead                     // text in front of a conversation
	kindText
	kinds
)

// longState is where a long body is between two bytes.
type longState uint8

const (
	beforeBody longState = iota
	beforeKey            // or the end
	inKey
	beforeColon
	beforeValue
	inValue
	behindValue
	behindBody
	broken // no JSON object, or made to be expensive
)

const (
	// smallBytes is how much is kept of options, and of members that the package does not know.
	smallBytes = 64 << 10
	// firstKept is the memory that a reader begins with.
	firstKept = 256 << 10
	// maxOther is the length in bytes of an unknown member that is kept, maxLongKey that of its key.
	maxOther   = 16 << 10
	maxLongKey = 512
	// minText is kept of any text, also behind another one that takes all room.
	minText = 4 << 10
	// memberBytes is what a member takes beside its text.
	memberBytes = 48
	// A body that has more strings and brackets than firstTokens and one in bytesPerToken is given up: it was made to
	// be expensive. A member of the request counts as tokensOfMember.
	firstTokens    = 16 << 10
	bytesPerToken  = 8
	tokensOfMember = 16
	// betweenChecks is how many bytes of a value are read before that is looked at again.
	betweenChecks = 64 << 10
)

// NewLongBody returns a reader that keeps so many bytes of a prompt, for a [Chainer] with the same secret.
func NewLongBody(keep int, secret [16]byte) *LongBody {
	return &LongBody{
		digest: siphash.New128(secret[:]), weight: 1,
		kept: make([]byte, 0, min(keep, firstKept)+minText), left: [kinds]int{smallBytes, smallBytes, keep, keep},
	}
}

// ManyValues says that the body has more values than are parsed. Where they are numbers, such as the tokens of a
// prompt, it is read as any other; where they are strings and brackets, it is given up a lot earlier.
func (l *LongBody) ManyValues() { l.weight = 8 }

// Read reads the next part of the body.
func (l *LongBody) Read(part []byte) {
	for i := 0; i < len(part); {
		switch b := part[i]; {
		case l.state == inKey:
			i = l.readKey(part, i)
		case l.state == inValue:
			i = l.readValue(part, i)
		case jsontext.IsSpace(b), b == ',' && l.state == beforeKey:
			i++
		case l.state == beforeValue:
			l.startValue()
		default:
			i++
			l.between(b)
		}
		if l.state == broken {
			return
		}
	}
	l.pos += len(part)
}

// between reads a byte that is not part of a member.
func (l *LongBody) between(b byte) {
	switch {
	case l.state == beforeBody && b == '{', l.state == behindValue && b == ',':
		l.state = beforeKey
	case l.state == beforeKey && b == '"':
		l.state, l.latest = inKey, keptMember{key: len(l.kept)}
		l.kept, l.room = append(l.kept, b), maxLongKey
		l.tokens += tokensOfMember
	case l.state == beforeColon && b == ':':
		l.state = beforeValue
	case b == '}' && (l.state == beforeKey || l.state == behindValue):
		l.state = behindBody
	default:
		l.state = broken
	}
}

// readKey reads more of a key, from at on, and returns the index after that.
func (l *LongBody) readKey(part []byte, at int) int {
	end, ended := l.rest(part, at)
	l.keep(part[at:end])
	if ended {
		l.state = beforeColon
	}
	return end
}

// rest finds the end of a string, or of the part that ends within it.
func (l *LongBody) rest(part []byte, at int) (end int, ended bool) {
	if l.escape {
		at++
	}
	end, ended, l.escape = jsontext.StringRest(part, at)
	return end, ended
}

// keep keeps what there is room for.
//
//go:noinline
func (l *LongBody) keep(text []byte) {
	n := min(len(text), l.room)
	l.latest.bytes += len(text)
	l.kept = append(l.kept, text[:n]...)
	l.room -= n
	l.latest.cut = l.latest.cut || n < len(text)
}

// startValue begins with the value of the current member.
func (l *LongBody) startValue() {
	m := &l.latest
	l.state, l.depth, l.inside = inValue, 0, false
	if m.cut { // the key is not one that is kept
		l.room = 0
		return
	}
	var name [maxEscapedName]byte
	key := l.kept[m.key+1 : len(l.kept)-1]
	m.field = fieldOf(jsontext.AppendUnescaped(name[:0], key[:min(len(key), maxEscapedName)]))
	m.kind = kindOf(m.field)
	l.kept = append(l.kept, ':')
	m.value = len(l.kept)
	if m.field != fieldOther && l.seen.has(m.field) { // Read is to find both
		l.keep([]byte("null"))
		l.state = broken
		l.endValue()
		return
	}
	l.seen |= 1 << m.field
	switch l.room = l.left[m.kind]; m.kind {
	case kindOther:
		l.room = min(l.room, maxOther)
	case kindText:
		l.room = max(l.room, min(l.left[kindLead], minText))
		if m.field.isMedia() { // for the beginnings of pictures that are left out
			l.room = max(l.room, minText+minPicture)
		}
	}
}

// kindOf returns what a member is kept for.
func kindOf(f field) memberKind {
	switch {
	case f == fieldTools, f == fieldSystem, f == fieldInstructions:
		return kindLead
	case f.isText(), f.isMedia():
		return kindText
	case f == fieldOther:
		return kindOther
	}
	return kindOption
}

// readValue reads more of a value, from at on, and returns the index after that.
func (l *LongBody) readValue(part []byte, at int) int {
	if l.picture {
		return l.readPicture(part, at)
	}
	end, ended := l.valueEnd(part[:min(len(part), at+betweenChecks)], at)
	l.keep(part[at:end])
	l.meetPicture()
	if ended {
		l.endValue()
		l.state = behindValue
	}
	if l.tokens*l.weight > firstTokens+(l.pos+end)/bytesPerToken {
		l.state = broken
	}
	return end
}

// valueEnd finds the end of the value, or of the part that ends within it.
func (l *LongBody) valueEnd(part []byte, i int) (end int, ended bool) {
	before := len(l.kept) - i
	for i < len(part) {
		if l.inside {
			stop := len(part)
			if n := l.begin + minPicture - before - i; n > 0 && l.room > 0 {
				stop = min(stop, i+n)
			}
			if i, ended = l.rest(part[:stop], i); !ended {
				return i, false
			}
			if l.inside = false; l.depth == 0 {
				return i, true
			}
			continue
		}
		switch part[i] {
		case '"':
			l.inside, l.begin = true, before+i
			l.tokens++
		case '{', '[':
			l.depth++
			l.tokens++
		case '}', ']':
			if l.depth == 0 {
				return i, true // the request's own, behind a number
			}
			if l.depth--; l.depth == 0 {
				return i + 1, true
			}
		case ',', ' ', '\n', '\t', '\r':
			if l.depth == 0 {
				return i, true
			}
		}
		i++
	}
	return i, false
}

// endValue keeps the member, as far as there was room for it, or leaves it out.
func (l *LongBody) endValue() {
	m := &l.latest
	m.end = len(l.kept)
	if m.cut && m.kind < kindLead {
		l.unsure = l.unsure || slices.Contains(nameFields[:], m.field)
		l.skipped += m.bytes
		l.kept = l.kept[:m.key]
		return
	}
	l.left[m.kind] = max(0, l.left[m.kind]-(m.end-m.key)-memberBytes)
	l.members = append(l.members, *m)
}

// Ended reports whether all of the body was read, and every name in it that keys of prompts depend on is known.
func (l *LongBody) Ended() bool { return l.state == behindBody && !l.unsure }

// Kept returns how many bytes are kept so far.
func (l *LongBody) Kept() int { return cap(l.kept) + cap(l.members)*memberBytes }

// Skipped returns how many bytes are not in the shorter body although they are no text.
func (l *LongBody) Skipped() int { return l.skipped }

// Body returns the shorter body, and whether it is one to its end: otherwise the latest member in it is the beginning
// of a longer one, namely of the first one in the order of a prompt of which not all is kept.
func (l *LongBody) Body() (body []byte, whole bool) {
	if l.state == inValue && !l.latest.cut || l.state == inValue && l.latest.kind >= kindLead {
		l.latest.cut = true
		l.latest.end = len(l.kept)
		l.members = append(l.members, l.latest)
	}
	cut := l.firstCut()
	w := writer{make([]byte, 0, len(l.kept)+len(l.members)+2)}
	for kind := range kinds { // names first: a prompt may have more values than are parsed
		for i := range l.members {
			m := &l.members[i]
			switch {
			case m.kind != kind || i == cut:
			case m.cut:
				w.member(l.kept[m.key:m.value])
				w.text = append(w.text, l.nothing(m)...)
			default:
				w.member(l.kept[m.key:m.end])
			}
		}
	}
	if cut >= 0 {
		w.member(l.kept[l.members[cut].key:l.members[cut].end])
		return w.text, false
	}
	if len(w.text) == 0 {
		w.text = append(w.text, '{')
	}
	if whole = l.state == behindBody; whole {
		w.text = append(w.text, '}')
	}
	return w.text, whole
}

// writer writes an object.
type writer struct{ text []byte }

// member writes the next member. It is not inlined, for the size of the artifacts.
//
//go:noinline
func (w *writer) member(text []byte) {
	separator := byte(',')
	if len(w.text) == 0 {
		separator = '{'
	}
	w.text = append(append(w.text, separator), text...)
}

// nothing returns an empty value of the type of a member that is cut.
func (l *LongBody) nothing(m *keptMember) string {
	if m.end == m.value {
		return "null"
	}
	switch l.kept[m.value] {
	case '[':
		return "[]"
	case '{':
		return "{}"
	}
	return `""`
}

// firstCut returns the index of the member that is cut, of several the first one in the order of a prompt; -1 for none.
func (l *LongBody) firstCut() int {
	first, at := len(textFields)+1, -1
	for i := range l.members {
		if m := &l.members[i]; m.cut {
			order := slices.Index(textFields[:], m.field)
			if order < 0 {
				order = len(textFields)
			}
			if order < first {
				first, at = order, i
			}
		}
	}
	return at
}
