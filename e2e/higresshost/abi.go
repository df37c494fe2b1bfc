package higresshost

import (
	"encoding/binary"
	"fmt"

	"github.com/warmgate/warmgate/e2e/fakehost"
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
func unmarshalPairs(b []byte) (fakehost.Headers, error) {
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
	out := make(fakehost.Headers, 0, n)
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
