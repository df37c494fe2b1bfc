package source

import (
	"bytes"
	"errors"
	"io"
	"math"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// YAML reads the documents of a file. With an error it returns those in front of it.
func (f *File) YAML() ([]*Node, error) {
	var list []*Node
	c := &converter{file: f, lines: yamlLines(f.Text), known: map[*yaml.Node]*Node{}}
	for d := yaml.NewDecoder(bytes.NewReader(f.Text)); ; {
		var document yaml.Node
		err := d.Decode(&document)
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return list, c.explained(c.syntaxError(err))
		}
		n, err := c.node(&document, 0)
		if err != nil {
			return list, c.explained(err)
		}
		list = append(list, n)
	}
}

// converter makes nodes of those of the YAML library.
type converter struct {
	file  *File
	lines []int
	known map[*yaml.Node]*Node // nil while it is being made

	last   Position // of the node before, and where that is
	lastAt int
}

// yamlLines returns where lines begin by the rules of YAML, which has more ends of lines than editors.
func yamlLines(text []byte) []int {
	lines := []int{0}
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		i += size
		switch r {
		case '\r':
			if i < len(text) && text[i] == '\n' {
				i++
			}
			lines = append(lines, i)
		case '\n', '\u0085', '\u2028', '\u2029':
			lines = append(lines, i)
		}
	}
	return lines
}

// at returns the offset of a node.
func (c *converter) at(n *yaml.Node) int {
	if n.Line < 1 || n.Line > len(c.lines) {
		return len(c.file.Text)
	}
	at, column := c.lines[n.Line-1], 1
	if last := c.last; last.Line == n.Line && last.Column <= n.Column { // in a long line, go on from there
		at, column = c.lastAt, last.Column
	}
	for range n.Column - column {
		if at >= len(c.file.Text) {
			break
		}
		_, size := utf8.DecodeRune(c.file.Text[at:])
		at += size
	}
	c.last, c.lastAt = Position{n.Line, n.Column}, min(at, len(c.file.Text))
	return c.lastAt
}

var yamlErrorLine = regexp.MustCompile(`^yaml: (?:line \d+: )?`)

// syntaxError finds the place of an error of the library, which at times counts lines from 0, and names the beginning
// of what the mistake is in. It is in the last line of the shortest beginning of the file with the same error.
func (c *converter) syntaxError(err error) error {
	what := yamlErrorLine.ReplaceAllString(err.Error(), "")
	line := sort.Search(len(c.lines)-1, func(i int) bool {
		err := readable(c.file.Text[:c.lines[i+1]])
		return err != nil && yamlErrorLine.ReplaceAllString(err.Error(), "") == what
	})
	at := c.lines[line]
	for at < len(c.file.Text) && c.file.Text[at] == ' ' {
		at++
	}
	if name, ok := strings.CutPrefix(what, "unknown anchor '"); ok { // which may be a secret
		name, _, _ = strings.Cut(name, "'")
		if i := bytes.Index(c.file.Text[at:], []byte("*"+name)); i >= 0 {
			at += i
		}
		what = "an alias without an anchor; put a text that begins with * into quotes"
	}
	return &SyntaxError{"not valid YAML: " + what, at}
}

// explained says of two common mistakes what is in the line, which the library does not know.
func (c *converter) explained(err error) error {
	syntax := (*SyntaxError)(nil)
	if !errors.As(err, &syntax) {
		return err
	}
	begin := bytes.LastIndexByte(c.file.Text[:syntax.At], '\n') + 1
	line, _, _ := bytes.Cut(c.file.Text[begin:], []byte("\n"))
	indentation := line[:len(line)-len(bytes.TrimLeft(line, " \t"))]
	switch tab, template := bytes.IndexByte(indentation, '\t'), bytes.Index(line, []byte("{{")); {
	case template >= 0:
		return &SyntaxError{"a template of Helm; pipe what helm template prints into validate -", begin + template}
	case tab >= 0:
		return &SyntaxError{"not valid YAML: a tab; indent with blanks", begin + tab}
	}
	return err
}

// readable returns the first error in a text.
func readable(text []byte) error {
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		if err := d.Decode(new(yaml.Node)); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func (c *converter) node(y *yaml.Node, depth int) (*Node, error) {
	if n, met := c.known[y]; met {
		if n == nil {
			return nil, &SyntaxError{"not valid YAML: an alias inside of what it stands for", c.at(y)}
		}
		return n, nil
	}
	if depth > maxDepth {
		return nil, &SyntaxError{"nested deeper than " + strconv.Itoa(maxDepth) + " levels", c.at(y)}
	}
	c.known[y] = nil
	n, err := c.convert(y, depth)
	c.known[y] = n
	return n, err
}

func (c *converter) convert(y *yaml.Node, depth int) (*Node, error) {
	n := &Node{At: c.at(y)}
	switch y.Kind {
	case yaml.DocumentNode:
		if len(y.Content) == 0 {
			n.Text = "null"
			return n, nil
		}
		return c.node(y.Content[0], depth)
	case yaml.AliasNode:
		return c.node(y.Alias, depth+1)
	case yaml.MappingNode:
		n.Kind = Object
		return n, c.members(n, y, depth)
	case yaml.SequenceNode:
		n.Kind = List
		for _, content := range y.Content {
			item, err := c.node(content, depth+1)
			if err != nil {
				return nil, err
			}
			n.Items = append(n.Items, item)
		}
	default:
		n.scalar(y)
	}
	return n, nil
}

// members converts what is in a mapping, with what is merged into it.
func (c *converter) members(n *Node, y *yaml.Node, depth int) error {
	var merged []*Node
	for i := 0; i+1 < len(y.Content); i += 2 {
		key := y.Content[i]
		value, err := c.node(y.Content[i+1], depth+1)
		if err != nil {
			return err
		}
		if key.Kind == yaml.ScalarNode && key.ShortTag() == "!!merge" {
			if !value.Is(Object) && !value.Is(List) {
				return &SyntaxError{"not valid YAML: << with what is no object", c.at(key)}
			}
			merged = append(merged, value)
			merged = append(merged, value.Elements()...)
			continue
		}
		for key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		if key.Kind != yaml.ScalarNode {
			return &SyntaxError{"not valid JSON: a key that is no text", c.at(y.Content[i])}
		}
		n.Add(Key{key.Value, c.at(y.Content[i])}, value)
	}
	for _, m := range merged {
		for i, key := range m.Keys {
			if n.Get(key.Name) == nil {
				n.Add(key, m.Items[i])
			}
		}
	}
	return nil
}

// Words that are booleans in the YAML of Kubernetes, Helm and Envoy, unless they are in quotes.
var (
	yes = []string{"y", "Y", "yes", "Yes", "YES", "on", "On", "ON"}
	no  = []string{"n", "N", "no", "No", "NO", "off", "Off", "OFF"}
)

// octal is a number that is taken as an octal one, though it does not say so as 0o10 does.
var octal = regexp.MustCompile(`^[-+]?0[0-7_]*[1-7]`)

// scalar takes over a single value, as it becomes JSON.
func (n *Node) scalar(y *yaml.Node) {
	plain := y.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0
	n.Kind, n.Text = String, y.Value
	switch {
	case y.Style&yaml.DoubleQuotedStyle != 0:
		n.style = escaped
	case y.Style&yaml.SingleQuotedStyle != 0:
		n.style = apostrophes
	case y.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		n.style = block
	}
	switch y.ShortTag() {
	case "!!null":
		n.Kind, n.Text = Null, "null"
	case "!!bool":
		var b bool
		if y.Decode(&b) == nil {
			n.Kind, n.Text = Bool, strconv.FormatBool(b)
		}
	case "!!int", "!!float":
		if text, ok := number(y); ok {
			n.Kind, n.Text, n.Octal = Number, text, octal.MatchString(y.Value)
		}
	case "!!str":
		if plain && y.Style&yaml.TaggedStyle == 0 && (slices.Contains(yes, y.Value) || slices.Contains(no, y.Value)) {
			n.Kind, n.Text = Bool, strconv.FormatBool(slices.Contains(yes, y.Value))
		}
	}
}

// number returns a number as JSON. Infinity and the like are none.
func number(y *yaml.Node) (string, bool) {
	var v any
	if y.Decode(&v) != nil {
		return "", false
	}
	switch v := v.(type) {
	case int:
		return strconv.Itoa(v), true
	case int64:
		return strconv.FormatInt(v, 10), true
	case uint64:
		return strconv.FormatUint(v, 10), true
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64), !math.IsInf(v, 0) && !math.IsNaN(v)
	}
	return "", false
}
