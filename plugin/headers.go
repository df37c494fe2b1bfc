package main

import "encoding/binary"

// The maps of headers, as host calls number them.
const (
	requestHeaders  = 0
	responseHeaders = 2
	callHeaders     = 6 // of the answer to a call that the plugin has made
)

// header returns the value of a header, nil if there is none. It is valid until the next host call.
func header(headers uint32, name string) []byte {
	lend(scratch[:])
	return fetched(proxyGetHeader(headers, name, dataAt, sizeAt))
}

// allHeaders returns names, in lower case, and values.
func allHeaders(headers uint32) [][2]string {
	lend(nil)
	return readPairs(fetched(proxyGetHeaders(headers, dataAt, sizeAt)))
}

// Pairs are packed as their number, then the lengths of each name and value, then the names and values, each with a
// zero behind it. Numbers have four bytes.

// readPairs returns packed pairs, whose texts are parts of b: none if b is not as it should be.
func readPairs(b []byte) [][2]string {
	if len(b) < 4 {
		return nil
	}
	n := int(binary.LittleEndian.Uint32(b))
	if n > (len(b)-4)/10 {
		return nil
	}
	pairs := make([][2]string, n)
	lengths, texts := b[4:], text(b[4+8*n:])
	for i := range pairs {
		for j := range pairs[i] {
			length := int(binary.LittleEndian.Uint32(lengths[8*i+4*j:]))
			if length >= len(texts) {
				return nil
			}
			pairs[i][j], texts = texts[:length], texts[length+1:]
		}
	}
	return pairs
}

// packPairs is the reverse of readPairs.
func packPairs(pairs [][2]string) string {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(pairs)))
	for _, p := range pairs {
		for _, s := range p {
			b = binary.LittleEndian.AppendUint32(b, uint32(len(s)))
		}
	}
	for _, p := range pairs {
		for _, s := range p {
			b = append(append(b, s...), 0)
		}
	}
	return text(b)
}
