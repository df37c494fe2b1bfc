package prompt

import (
	"bytes"

	"github.com/warmgate/warmgate/internal/jsontext"
)

// rank is where a member is printed among the others of its object. Those of one rank are in the order of their keys,
// because clients write them in any.
type rank uint8

const (
	rankRole rank = iota
	rankContent
	rankName
	rankText
	rankMedia
	rankFunction
	rankCalls
	rankOther
	rankUnknown // of a message, a member that is printed only if it may be all that there is
	rankType
	unprinted // it does not reach the model
)

// place is where an object stands in a prompt.
type place uint8

const (
	inMessage place = iota // it is a message
	inPart                 // a part of one
	inTool                 // a tool that a model may call, or the function in it
	inCall                 // a call of one
)

const (
	// maxMembers is how many members of a message or a part are put in order. One with more is added as it is written.
	maxMembers = 16
	// maxLevels is how many objects of them may be inside of each other.
	maxLevels = 4
	// maxNested is how deep content may be in content: a tool's result has parts of its own.
	maxNested = 2
)

// objectMember is a member of an object, by the positions of its key and value.
type objectMember struct {
	key, value span
	rank       rank
}

// object is the members of an object that reach the model.
type object struct {
	list    []objectMember
	end     int  // the index after it
	open    bool // it is cut off
	raw     bool // it has too many members, or is too deep, to put them in order
	hasRole bool // it is a message, whose role was added before
}

// find returns the position of the value of the first member of a rank, empty if there is none. Like some other
// functions here it is not inlined, for the size of the artifacts.
//
//go:noinline
func (o *object) find(r rank) span {
	for i := range o.list {
		if o.list[i].rank == r {
			return o.list[i].value
		}
	}
	return span{}
}

// after reports whether a member is printed behind another one.
func (m *objectMember) after(other *objectMember, v []byte) bool {
	if m.rank != other.rank {
		return m.rank > other.rank
	}
	return bytes.Compare(v[m.key.from:m.key.to], v[other.key.from:other.key.to]) > 0
}

// isNothing reports whether a value is null, or an empty text or list: a template prints nothing for it.
func isNothing(value []byte) bool {
	switch {
	case len(value) < 2:
		return false
	case value[0] == 'n':
		return len(value) == len("null")
	case value[0] == '"':
		return len(value) == 2 && value[1] == '"'
	}
	return value[0] == '[' && value[jsontext.Space(value, 1)%len(value)] == ']'
}
