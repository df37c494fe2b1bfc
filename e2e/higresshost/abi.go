package higresshost

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// status is what a host call answers to the guest.
type status uint32

const (
	statusOK            status = 0
	statusNotFound      status = 1
	statusBadArgument   status = 2
	statusEmpty         status = 7
	statusCasMismatch   status = 8
	statusInternal      status = 10
	statusBroken        status = 11
	statusUnimplemented status = 12
)

// Answers of the header and body callbacks.
const (
	headersContinue      = 0
	headersStopIteration = 1
	headersEndStream     = 2
	headersStopBuffer    = 3
	headersStopWatermark = 4

	dataContinue      = 0
	dataStopBuffer    = 1
	dataStopWatermark = 2
	dataStopNoBuffer  = 3
)

// Buffers and header maps that a guest may name.
const (
	bufferRequestBody  = 0
	bufferResponseBody = 1
	bufferHTTPCallBody = 4
	bufferVMConfig     = 6
	bufferPluginConfig = 7
	bufferRedisReply   = 9

	mapRequestHeaders   = 0
	mapRequestTrailers  = 1
	mapResponseHeaders  = 2
	mapResponseTrailers = 3
	mapCallHeaders      = 6
	mapCallTrailers     = 7
)

// Headers is an ordered header map. Names compare without regard to case.
type Headers [][2]string

// H builds Headers from name, value pairs. It panics on an odd number of arguments.
func H(pairs ...string) Headers {
	if len(pairs)%2 != 0 {
		panic("higresshost: H takes name, value pairs")
	}
	h := make(Headers, 0, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

// Get returns the first value of name, or "".
func (h Headers) Get(name string) string {
	v, _ := h.lookup(name)
	return v
}

// Values returns all values of name in order.
func (h Headers) Values(name string) []string {
	var out []string
	for _, p := range h {
		if strings.EqualFold(p[0], name) {
			out = append(out, p[1])
		}
	}
	return out
}

// Has reports whether name is present.
func (h Headers) Has(name string) bool {
	_, ok := h.lookup(name)
	return ok
}

func (h Headers) lookup(name string) (string, bool) {
	for _, p := range h {
		if strings.EqualFold(p[0], name) {
			return p[1], true
		}
	}
	return "", false
}

// Add appends a value, keeping those already there.
func (h *Headers) Add(name, value string) {
	*h = append(*h, [2]string{strings.ToLower(name), value})
}

// Set replaces all values of name by one, at the place of the first.
func (h *Headers) Set(name, value string) {
	out := make(Headers, 0, len(*h)+1)
	placed := false
	for _, p := range *h {
		switch {
		case !strings.EqualFold(p[0], name):
			out = append(out, p)
		case !placed:
			out = append(out, [2]string{p[0], value})
			placed = true
		}
	}
	*h = out
	if !placed {
		h.Add(name, value)
	}
}

// Del removes all values of name.
func (h *Headers) Del(name string) {
	out := make(Headers, 0, len(*h))
	for _, p := range *h {
		if !strings.EqualFold(p[0], name) {
			out = append(out, p)
		}
	}
	*h = out
}

func (h Headers) clone() Headers { return append(Headers(nil), h...) }

// marshalPairs encodes pairs as the ABI does: count, sizes, then names and values each followed by a NUL.
func marshalPairs(pairs [][2]string) []byte {
	out := binary.LittleEndian.AppendUint32(nil, uint32(len(pairs)))
	for _, p := range pairs {
		out = binary.LittleEndian.AppendUint32(out, uint32(len(p[0])))
		out = binary.LittleEndian.AppendUint32(out, uint32(len(p[1])))
	}
	for _, p := range pairs {
		out = append(append(out, p[0]...), 0)
		out = append(append(out, p[1]...), 0)
	}
	return out
}

// unmarshalPairs is the inverse of marshalPairs; an empty input is an empty map.
func unmarshalPairs(b []byte) (Headers, error) {
	if len(b) == 0 {
		return nil, nil
	}
	if len(b) < 4 {
		return nil, fmt.Errorf("pairs: %d bytes", len(b))
	}
	n := int(binary.LittleEndian.Uint32(b))
	if n > (len(b)-4)/8 {
		return nil, fmt.Errorf("pairs: %d entries in %d bytes", n, len(b))
	}
	sizes, data := b[4:4+8*n], b[4+8*n:]
	take := func(i int) (string, error) {
		size := int(binary.LittleEndian.Uint32(sizes[4*i:]))
		if size < 0 || size >= len(data) {
			return "", fmt.Errorf("pairs: entry %d runs past the end", i/2)
		}
		s := string(data[:size])
		data = data[size+1:]
		return s, nil
	}
	out := make(Headers, 0, n)
	for i := range n {
		name, err := take(2 * i)
		if err != nil {
			return nil, err
		}
		value, err := take(2*i + 1)
		if err != nil {
			return nil, err
		}
		out.Add(name, value)
	}
	return out, nil
}
