package config

import (
	"errors"
	"slices"
	"strconv"
	"strings"
)

// This file is for what checks the files of users: the plugin calls nothing of it.

// Finding is a problem of a configuration, or a warning, with its place.
type Finding struct {
	Path    string // of the key, as in the errors of Parse; "" for the whole text
	Text    string // what is wrong, and what would be right
	Warning bool
	Offset  int // in the text, in bytes: of the key, or of its value if that is what is wrong
}

// maxFindings is how many problems, and how many warnings, Check returns: each is looked for in the whole text.
const maxFindings = 1000

// Check returns the problems and warnings of a configuration, in the order of their places: what Parse reports, but up
// to 1000 of each. A last one says how many problems there are beside them. The set is what Parse returns.
func Check(raw []byte, h Host) (*Set, []Finding) {
	text := string(raw)
	root, err := value{}, error(nil)
	if len(text) <= maxBytes && strings.TrimSpace(text) != "" {
		root, err = parseJSON(text)
	}
	if syntax := (*syntaxError)(nil); errors.As(err, &syntax) {
		return nil, []Finding{{Text: "not valid JSON: " + syntax.what, Offset: min(syntax.at, len(text))}}
	}
	if root.kind != kindObject {
		_, err := Parse(raw, h) // which says why
		return nil, []Finding{{Text: strings.TrimPrefix(err.Error(), "config: "), Offset: root.from}}
	}
	src := &source{parser: &parser{host: h, base: defaults(h)}, text: text}
	src.most = maxFindings
	set, _ := src.set(root, nil)
	if set != nil {
		set.warnings = src.warnings
	}
	c := &checked{root: &root, text: text, twice: map[string]int{}}
	for _, text := range src.problems {
		c.add(text, behindProblem, false)
	}
	for _, text := range src.warnings {
		c.add(text, behindWarning, true)
	}
	slices.SortStableFunc(c.list, func(a, b Finding) int { return a.Offset - b.Offset })
	if more := src.count - len(src.problems); more > 0 {
		last := c.list[len(c.list)-1].Offset
		c.list = append(c.list, Finding{Text: "more problems than are shown: " + strconv.Itoa(more), Offset: last})
	}
	return set, c.list
}

// checked are the findings of a configuration.
type checked struct {
	root  *value
	text  string
	list  []Finding
	twice map[string]int // how often a path was found to be written twice
}

// add adds a problem or warning that begins with the path of its key.
func (c *checked) add(text, separator string, warning bool) {
	path, what, place := c.split(text, separator)
	if what == "written twice" {
		c.twice[path]++
		all := places(c.root, c.text, path)
		place = all[min(c.twice[path], len(all)-1)]
	}
	f := Finding{Path: path, Text: what, Warning: warning, Offset: place.Key}
	if strings.HasPrefix(what, "got ") {
		f.Offset = place.Value
	}
	if element := place.value.named(what); element != nil && place.Found {
		f.Offset = element.from
	}
	c.list = append(c.list, f)
}

// named returns the element of a list that a finding is about: of names, messages have the path of the list.
func (v *value) named(what string) *value {
	if v.kind != kindArray {
		return nil
	}
	for i := range v.items {
		item := &v.items[i]
		for _, verb := range [...]string{"got ", "has "} {
			if item.kind == kindString && strings.HasPrefix(what, verb+quote(item.text)) {
				return item
			}
		}
	}
	return nil
}

// split cuts the path off a text. Names in it may contain the separator, so it is the first path that is there.
func (c *checked) split(text, separator string) (path, what string, place Place) {
	for end := 0; ; end += len(separator) {
		next := strings.Index(text[end:], separator)
		if next < 0 {
			break
		}
		end += next
		if place = places(c.root, c.text, text[:end])[0]; place.Found {
			return text[:end], text[end+len(separator):], place
		}
	}
	path, what, _ = strings.Cut(text, separator) // of a key that is missing
	return path, what, places(c.root, c.text, path)[0]
}

// Place is where a key and its value begin in the text of a configuration, in bytes. Elements of lists have no key.
type Place struct {
	Key, Value int
	Found      bool // else it is the place of what is around it

	value *value
}

// PlaceOf returns the place of a path, as findings have it. The text must be JSON.
func PlaceOf(raw []byte, path string) Place {
	text := string(raw)
	root, err := parseJSON(text)
	if err != nil {
		return Place{}
	}
	return places(&root, text, path)[0]
}

// places returns all places with a path, in the order of the text: keys may be written twice. If there is none it
// returns the place of as much of the path as there is.
func places(root *value, text, path string) []Place {
	l := locator{text: text}
	if path != "" {
		path = "." + path
	}
	l.find(root, root.from, path)
	return l.best
}

// locator looks for a path.
type locator struct {
	text string
	best []Place
	left int // how much of the path is not found there
}

// find looks for the rest of a path at and below a value whose key is at that offset.
func (l *locator) find(v *value, key int, rest string) {
	switch here := (Place{key, v.from, rest == "", v}); {
	case l.best == nil || len(rest) < l.left:
		l.best, l.left = []Place{here}, len(rest)
	case rest == "":
		l.best = append(l.best, here)
	}
	end := v.from + 1 // of what is in front of the next item
	for i := range v.items {
		item := &v.items[i]
		if v.kind == kindArray {
			if more, ok := strings.CutPrefix(rest, "["+strconv.Itoa(i)+"]"); ok {
				l.find(item, item.from, more)
			}
			continue
		}
		for _, more := range behind(rest, v.names[i]) {
			l.find(item, end+strings.IndexByte(l.text[end:], '"'), more)
		}
		end = item.to
	}
}

// behind returns what may be left of a path behind the name of a member, which findings may have escaped, cut, or put
// in brackets. It is nil if the path leads to another member.
func behind(rest, name string) (list []string) {
	if inBrackets, ok := strings.CutPrefix(rest, `["`); ok && mayBegin(inBrackets, name) {
		if more, ok := strings.CutPrefix(rest, "["+quote(name)+"]"); ok {
			return []string{more}
		}
	}
	rest, ok := strings.CutPrefix(rest, ".")
	if !ok || !strings.HasPrefix(rest, `"`) && !strings.HasSuffix(rest, "...") && !mayBegin(rest, name) {
		return nil
	}
	if quoted, err := strconv.QuotedPrefix(rest); err == nil {
		if whole, err := strconv.Unquote(quoted); err == nil && quoted != strconv.Quote(name) {
			rest = whole + rest[len(quoted):] // a whole path was escaped
		}
	}
	key, _ := cutGlued(name)
	shown := []string{name, printable(name), clip(printable(name)), printable(key)}
	slices.Sort(shown)
	for _, s := range slices.Compact(shown) {
		more, ok := strings.CutPrefix(rest, s)
		switch {
		case ok && (more == "" || more[0] == '.' || more[0] == '['):
			list = append(list, more)
		case !ok && strings.HasSuffix(rest, "...") && strings.HasPrefix(s, strings.TrimSuffix(rest, "...")):
			list = append(list, "")
		}
	}
	return list
}

// maxPlain is less than what a message repeats of any name.
const maxPlain = 32

// mayBegin reports whether a text may begin with a name, as findings have it. It only saves time: of an object with
// thousands of keys each finding goes through all.
func mayBegin(text, name string) bool {
	for i := range min(len(text), len(name), maxPlain) {
		switch c := name[i]; {
		case c <= ' ' || c > '~' || strings.IndexByte(`"\:=`, c) >= 0:
			return true // from here on it may be escaped, or cut
		case c != text[i]:
			return false
		}
	}
	return true
}
