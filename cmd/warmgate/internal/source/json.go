package source

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// SyntaxError is a place where a file stops being YAML or JSON.
type SyntaxError struct {
	Text string
	At   int
}

func (e *SyntaxError) Error() string { return e.Text }

// JSON reads a file as JSON.
func (f *File) JSON() (*Node, error) {
	if !json.Valid(f.Text) { // which the decoder of tokens does not find everywhere
		var raw json.RawMessage
		err := json.Unmarshal(f.Text, &raw)
		at := len(f.Text)
		if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
			at = int(syntax.Offset) - 1
		}
		return nil, &SyntaxError{"not valid JSON", max(at, 0)}
	}
	p := &jsonParser{text: f.Text, d: json.NewDecoder(bytes.NewReader(f.Text))}
	p.d.UseNumber()
	return p.value()
}

type jsonParser struct {
	text []byte
	d    *json.Decoder
}

// next returns the next token, and where it begins.
func (p *jsonParser) next() (json.Token, int, error) {
	at := int(p.d.InputOffset())
	for at < len(p.text) && bytes.IndexByte([]byte(" \t\r\n,:"), p.text[at]) >= 0 {
		at++
	}
	token, err := p.d.Token()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return token, at, err
}

func (p *jsonParser) value() (*Node, error) {
	token, at, err := p.next()
	if err != nil {
		return nil, err
	}
	n := &Node{At: at}
	switch v := token.(type) {
	case json.Delim:
		n.Kind = List
		if v == '{' {
			n.Kind = Object
		}
		return n, p.items(n)
	case string:
		n.Kind, n.Text, n.style = String, v, escaped
	case json.Number:
		n.Kind, n.Text = Number, v.String()
	case bool:
		n.Kind, n.Text = Bool, "false"
		if v {
			n.Text = "true"
		}
	default:
		n.Text = "null"
	}
	return n, nil
}

// items reads what is in an object or a list, and its end.
func (p *jsonParser) items(n *Node) error {
	for p.d.More() {
		if n.Kind == Object {
			token, at, err := p.next()
			if err != nil {
				return err
			}
			name, _ := token.(string)
			n.Keys = append(n.Keys, Key{name, at})
		}
		item, err := p.value()
		if err != nil {
			return err
		}
		n.Items = append(n.Items, item)
	}
	_, _, err := p.next()
	return err
}
