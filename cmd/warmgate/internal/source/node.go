package source

import (
	"encoding/json"
	"errors"
	"strings"
)

// Kind is the kind of a value.
type Kind int

// The kinds. Numbers, booleans and null have their JSON as text.
const (
	Null Kind = iota
	Bool
	Number
	String
	List
	Object
)

// Node is a value in a file. Nodes may be shared: an alias in YAML is the node that it names.
type Node struct {
	Kind  Kind
	Text  string
	Keys  []Key   // of an object, beside Items
	Items []*Node // of an object or a list
	At    int     // where it begins in the file
	Octal bool    // a number that begins with 0, which has another value than it seems to
	style style   // of a string
}

// Key is a key of an object.
type Key struct {
	Name string
	At   int
}

// Get returns the value of a key, the first of the names that there is, or nil. A node that is nil has none.
func (n *Node) Get(names ...string) *Node {
	if n == nil {
		return nil
	}
	for _, name := range names {
		for i := range n.Keys {
			if n.Keys[i].Name == name {
				return n.Items[i]
			}
		}
	}
	return nil
}

// KeyAt returns where a key is, or where the object begins if it does not have the key.
func (n *Node) KeyAt(name string) int {
	for i := range n.Keys {
		if n.Keys[i].Name == name {
			return n.Keys[i].At
		}
	}
	return n.At
}

// Find returns the value at a path of keys, or nil.
func (n *Node) Find(path ...string) *Node {
	for _, name := range path {
		n = n.Get(name)
	}
	return n
}

// Is reports whether the node is of a kind. One that is nil is of none.
func (n *Node) Is(k Kind) bool { return n != nil && n.Kind == k }

// String returns the content of a string, and "" for anything else.
func (n *Node) String() string {
	if n.Is(String) {
		return n.Text
	}
	return ""
}

// Elements returns the elements of a list, none for anything else.
func (n *Node) Elements() []*Node {
	if n.Is(List) {
		return n.Items
	}
	return nil
}

// Add appends a member to an object.
func (n *Node) Add(key Key, value *Node) {
	n.Keys, n.Items = append(n.Keys, key), append(n.Items, value)
}

// Bounds of what is made of a node. A few aliases can make a short file very long.
const (
	maxRendered = 4 << 20
	maxDepth    = 100
)

// JSON returns the node as JSON.
func (n *Node) JSON() (*Text, error) {
	t := new(Text)
	return t, t.render(n, 0)
}

var errTooLarge = errors.New("too large or nested too deeply")

func (t *Text) render(n *Node, depth int) error {
	if depth > maxDepth || len(t.Bytes) > maxRendered {
		return errTooLarge
	}
	t.mark(n.At, false)
	switch n.Kind {
	case Object:
		return t.sequence('{', '}', n, depth)
	case List:
		return t.sequence('[', ']', n, depth)
	case String:
		t.Bytes = append(t.Bytes, quoted(n.Text)...)
	default:
		t.Bytes = append(t.Bytes, n.Text...)
	}
	return nil
}

// sequence renders the items of an object or a list.
func (t *Text) sequence(opening, closing byte, n *Node, depth int) error {
	t.Bytes = append(t.Bytes, opening)
	for i, item := range n.Items {
		if i > 0 {
			t.Bytes = append(t.Bytes, ',')
		}
		if n.Kind == Object {
			t.mark(n.Keys[i].At, false)
			t.Bytes = append(append(t.Bytes, quoted(n.Keys[i].Name)...), ':')
		}
		if err := t.render(item, depth+1); err != nil {
			return err
		}
	}
	t.Bytes = append(t.Bytes, closing)
	return nil
}

// quoted returns a string as JSON, with its characters as they are.
func quoted(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string is always JSON
	return strings.TrimSuffix(b.String(), "\n")
}
