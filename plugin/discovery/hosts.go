package discovery

import (
	"bytes"
	"errors"

	"github.com/warmgate/warmgate/internal/jsontext"
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
		text = jsontext.AppendUnescaped(text[:0], member(info, "metrics"))
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
	for at := 0; ; {
		quote := bytes.IndexByte(object[at:], '"')
		if quote < 0 {
			return nil
		}
		key, _, end := jsontext.SkipString(object, at+quote)
		at = jsontext.AfterKey(object, end)
		switch {
		case at < 0:
			at = end // a string value, or no JSON
		case string(key) != name:
		case at == len(object) || object[at] != '"':
			return nil
		default:
			value, _, end := jsontext.SkipString(object, at)
			if end-at < len(value)+2 {
				return nil // its closing quote is missing
			}
			return value
		}
	}
}
