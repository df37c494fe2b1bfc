package redisclient

import (
	"bytes"
	"errors"
	"strconv"
)

// Limits of a reply. Those of the scripts are far below them; a reply above them does not come from Redis.
const (
	maxBulk  = 1 << 20 // bytes of one string
	maxDepth = 4       // levels of nested arrays
	maxItems = 1 << 16 // elements of one reply, over all levels
)

// Errors of parsing.
var (
	// ErrIncomplete means that the bytes are the beginning of a reply: more are needed.
	ErrIncomplete = errors.New("redisclient: incomplete reply")
	// ErrGarbage means that the bytes are no reply of Redis, or one above the limits.
	ErrGarbage = errors.New("redisclient: not a reply of Redis")
)

// Kind is the kind of a reply: the byte that it begins with.
type Kind byte

// The kinds of replies in RESP2.
const (
	Simple     Kind = '+'
	ErrorReply Kind = '-'
	Integer    Kind = ':'
	Bulk       Kind = '$'
	Array      Kind = '*'
)

// Value is a parsed reply. Str points into the bytes that were parsed.
type Value struct {
	Kind  Kind
	Int   int64
	Str   []byte // of Simple, Failed and Bulk
	Items []Value
	Null  bool // true for the null Bulk and the null Array
}

// Parse reads one reply from b and returns the bytes that follow it. Its errors are [ErrIncomplete] and [ErrGarbage].
func Parse(b []byte) (v Value, rest []byte, err error) {
	items := 0
	return parse(b, 0, &items)
}

func parse(b []byte, depth int, items *int) (v Value, rest []byte, err error) {
	if *items++; depth > maxDepth || *items > maxItems {
		return Value{}, nil, ErrGarbage
	}
	if len(b) == 0 {
		return Value{}, nil, ErrIncomplete
	}
	line, rest, err := cutLine(b[1:])
	v.Kind = Kind(b[0])
	if err != nil {
		return Value{}, nil, badKind(v.Kind, err)
	}
	switch v.Kind {
	case Simple, ErrorReply:
		v.Str = line
		return v, rest, nil
	case Integer:
		v.Int, err = strconv.ParseInt(string(line), 10, 64)
	case Bulk:
		return parseBulk(v, line, rest)
	case Array:
		return parseArray(v, line, rest, depth, items)
	default:
		err = ErrGarbage
	}
	if err != nil {
		return Value{}, nil, ErrGarbage
	}
	return v, rest, nil
}

// badKind returns why the line of a reply of the kind could not be read: err, or [ErrGarbage] if there is no such kind.
func badKind(k Kind, err error) error {
	switch k {
	case Simple, ErrorReply, Integer, Bulk, Array:
		return err
	}
	return ErrGarbage
}

func parseBulk(v Value, line, rest []byte) (Value, []byte, error) {
	n, err := strconv.Atoi(string(line))
	switch {
	case err != nil || n < -1 || n > maxBulk:
		return Value{}, nil, ErrGarbage
	case n == -1:
		v.Null = true
		return v, rest, nil
	case len(rest) < n+2:
		return Value{}, nil, ErrIncomplete
	case rest[n] != '\r' || rest[n+1] != '\n':
		return Value{}, nil, ErrGarbage
	}
	v.Str = rest[:n:n]
	return v, rest[n+2:], nil
}

func parseArray(v Value, line, rest []byte, depth int, items *int) (Value, []byte, error) {
	n, err := strconv.Atoi(string(line))
	switch {
	case err != nil || n < -1 || n > maxItems:
		return Value{}, nil, ErrGarbage
	case n == -1:
		v.Null = true
		return v, rest, nil
	}
	for range n {
		var item Value
		if item, rest, err = parse(rest, depth+1, items); err != nil {
			return Value{}, nil, err
		}
		v.Items = append(v.Items, item)
	}
	return v, rest, nil
}

// maxLine is how many bytes the first line of a reply may have. Error messages are the longest.
const maxLine = 4096

// cutLine splits b behind the first line, which is returned without its end.
func cutLine(b []byte) (line, rest []byte, err error) {
	end := bytes.Index(b[:min(len(b), maxLine)], []byte("\r\n"))
	switch {
	case end >= 0:
		return b[:end:end], b[end+2:], nil
	case len(b) >= maxLine:
		return nil, nil, ErrGarbage
	}
	return nil, nil, ErrIncomplete
}

// AppendCommand appends a command of the given words to dst, in RESP.
func AppendCommand(dst []byte, words ...string) []byte {
	dst = appendHeader(dst, len(words))
	for _, w := range words {
		dst = appendArg(dst, w)
	}
	return dst
}

// appendHeader appends the beginning of a command of so many words, which the caller appends.
func appendHeader(dst []byte, words int) []byte {
	dst = append(dst, '*')
	dst = strconv.AppendInt(dst, int64(words), 10)
	return append(dst, '\r', '\n')
}

func appendArg[T string | ~[]byte](dst []byte, word T) []byte {
	dst = append(dst, '$')
	dst = strconv.AppendInt(dst, int64(len(word)), 10)
	dst = append(dst, '\r', '\n')
	dst = append(dst, word...)
	return append(dst, '\r', '\n')
}

func appendInt(dst []byte, n int64) []byte {
	var digits [20]byte
	return appendArg(dst, strconv.AppendInt(digits[:0], n, 10))
}
