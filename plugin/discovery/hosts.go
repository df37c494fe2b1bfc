package discovery

import (
	"bytes"
	"errors"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
)

// ErrHosts is returned when a host list is not in the encoding of the gateway.
var ErrHosts = errors.New("discovery: host list is not a pair map")

// ParseHosts reads the answer of Higress's get_upstream_hosts: a map from address to a JSON object, in the encoding of
// Proxy-Wasm. Of the object only health_status is used; a host whose object cannot be parsed is unhealthy, a host
// without a usable address is left out. The error is ErrHosts, when the map itself is broken.
func ParseHosts(raw []byte) ([]lb.Endpoint, error) {
	return parseHosts(raw, func(string, []byte) {})
}

// ParsePages is ParseHosts, and also calls page with the metrics that each host's health check has stored: the page as
// the host sent it, perhaps truncated, or nothing. The text is only valid until the next call.
func ParsePages(raw []byte, page func(addr string, text []byte)) ([]lb.Endpoint, error) {
	var text []byte
	return parseHosts(raw, func(addr string, info []byte) {
		text = unescape(text[:0], member(info, "metrics"))
		page(addr, text)
	})
}

func parseHosts(raw []byte, each func(addr string, info []byte)) ([]lb.Endpoint, error) {
	r := wire.NewReader(raw)
	count := int(r.Uint32())
	sizes := wire.NewReader(r.Take(8 * count))
	if !r.OK() {
		return nil, ErrHosts
	}
	endpoints := make([]lb.Endpoint, 0, count)
	for range count {
		addr, info := takeTerminated(&r, sizes.Uint32()), takeTerminated(&r, sizes.Uint32())
		if !r.OK() {
			return nil, ErrHosts
		}
		if isAddress(addr) {
			e := lb.Endpoint{Addr: string(addr), Weight: 1, State: HostState(info)}
			endpoints = append(endpoints, e)
			each(e.Addr, info)
		}
	}
	return endpoints, nil
}

// takeTerminated takes size bytes and the NUL behind them off.
func takeTerminated(r *wire.Reader[[]byte], size uint32) []byte {
	item := r.Take(int(size))
	if r.Byte() != 0 {
		r.Fail()
	}
	return item
}

// HostState returns the state in health_status of the JSON object that Higress has for a host. A host whose object
// cannot be parsed is unhealthy, as for every plugin of Higress: only the word Healthy makes a host usable.
func HostState(info []byte) lb.State {
	status := member(info, "health_status")
	switch {
	case bytes.EqualFold(status, []byte("healthy")):
		return lb.Healthy
	case bytes.EqualFold(status, []byte("degraded")):
		return lb.Degraded
	case bytes.EqualFold(status, []byte("draining")):
		return lb.Draining
	}
	return lb.Unhealthy
}

// member returns the content of a string member of a flat JSON object, nil if there is none. It scans each string once
// and unescapes none: the text of the engine's metrics, tens of kilobytes, is skipped.
func member(object []byte, name string) []byte {
	for {
		key, rest, ok := quoted(object)
		if !ok {
			return nil
		}
		rest = bytes.TrimLeft(rest, " \t\r\n")
		if len(rest) == 0 || rest[0] != ':' {
			object = rest // a string value, or no JSON
			continue
		}
		object = bytes.TrimLeft(rest[1:], " \t\r\n")
		if string(key) != name {
			continue
		}
		if len(object) == 0 || object[0] != '"' {
			return nil
		}
		value, _, _ := quoted(object)
		return value
	}
}

// quoted returns the content of the first string in s and what follows it.
func quoted(s []byte) (content, rest []byte, ok bool) {
	start := bytes.IndexByte(s, '"')
	if start < 0 {
		return nil, nil, false
	}
	s = s[start+1:]
	for i := 0; ; {
		quote := bytes.IndexByte(s[i:], '"')
		if quote < 0 {
			return nil, nil, false
		}
		i += quote
		escapes := 0
		for escapes < i && s[i-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return s[:i], s[i+1:], true
		}
		i++
	}
}

// unescape appends the unescaped content of a JSON string. Escapes of characters beyond ASCII, which no page of metrics
// contains, become question marks.
func unescape(dst, content []byte) []byte {
	for {
		at := bytes.IndexByte(content, '\\')
		if at < 0 || at+1 == len(content) {
			return append(dst, content...)
		}
		dst = append(dst, content[:at]...)
		c := content[at+1]
		content = content[at+2:]
		switch c {
		case 'n':
			dst = append(dst, '\n')
		case 't':
			dst = append(dst, '\t')
		case 'r':
			dst = append(dst, '\r')
		case 'b', 'f':
			dst = append(dst, ' ')
		case 'u':
			dst, content = append(dst, ascii(content)), content[min(4, len(content)):]
		default: // a quotation mark or a slash
			dst = append(dst, c)
		}
	}
}

// ascii returns the character with the code of four hexadecimal digits, a question mark if it is not ASCII.
func ascii(digits []byte) byte {
	if len(digits) < 4 || digits[0] != '0' || digits[1] != '0' {
		return '?'
	}
	c := hex(digits[2])<<4 | hex(digits[3])
	if c > 0x7e {
		return '?'
	}
	return c
}

// hex returns the value of a hexadecimal digit, 0xff for any other character.
func hex(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10
	}
	return 0xff
}
