package main

import (
	"bytes"
	"encoding/binary"
	"errors"
)

// The sections of a module that are read here, as https://webassembly.github.io/spec/core/binary/modules.html numbers
// them.
const (
	sectionType     = 1
	sectionImport   = 2
	sectionFunction = 3
	sectionExport   = 7
	sectionElement  = 9
	sectionCode     = 10
	sectionData     = 11
)

var header = []byte("\x00asm\x01\x00\x00\x00")

var errCut = errors.New("the module is cut off")

// section is a part of a module.
type section struct {
	kind byte
	body []byte
}

// sections splits a module.
func sections(module []byte) ([]section, error) {
	rest, ok := bytes.CutPrefix(module, header)
	if !ok {
		return nil, errors.New("not a Wasm module of version 1")
	}
	var all []section
	r := reader{rest: rest}
	for len(r.rest) > 0 && !r.failed {
		kind := r.byte()
		all = append(all, section{kind, r.bytes(r.uint())})
	}
	return all, r.err()
}

// join is the reverse of sections.
func join(all []section) []byte {
	module := bytes.Clone(header)
	for _, s := range all {
		module = append(module, s.kind)
		module = appendBytes(module, s.body)
	}
	return module
}

// find returns the section of a kind. Where there is none, it is one that cannot be read.
func find(all []section, kind byte) *section {
	for i := range all {
		if all[i].kind == kind {
			return &all[i]
		}
	}
	return &section{kind: kind}
}

// add puts one more item at the end of a section that is a list.
func (s *section) add(item []byte) {
	r := reader{rest: s.body}
	n := r.uint()
	s.body = append(append(binary.AppendUvarint(nil, n+1), r.rest...), item...)
}

// segment is a part of the memory's first content.
type segment struct {
	at   uint64
	data []byte
}

// An active segment of memory 0 is: a zero, the address as i32.const, and the bytes.
const opEnd = 0x0b

// segments reads a section of data.
func segments(body []byte) ([]segment, error) {
	r := reader{rest: body}
	all := make([]segment, 0, len(body)/8)
	for n := r.uint(); n > 0 && !r.failed; n-- {
		mode, op, at, end := r.uint(), r.byte(), r.int(), r.byte()
		data := r.bytes(r.uint())
		if !r.failed && (mode != 0 || op != opI32Const || at < 0 || end != opEnd) {
			return nil, errors.New("a segment of data whose address is no constant")
		}
		all = append(all, segment{uint64(at), data})
	}
	return all, r.err()
}

// appendSegments is the reverse of segments.
func appendSegments(b []byte, all []segment) []byte {
	b = binary.AppendUvarint(b, uint64(len(all)))
	for _, s := range all {
		b = append(b, 0, opI32Const)
		b = appendInt(b, int64(s.at))
		b = append(b, opEnd)
		b = appendBytes(b, s.data)
	}
	return b
}

// image returns the memory that segments make, up to the end of the last one.
func image(all []segment) []byte {
	var end uint64
	for _, s := range all {
		end = max(end, s.at+uint64(len(s.data)))
	}
	memory := make([]byte, end)
	for _, s := range all {
		copy(memory[s.at:], s.data)
	}
	return memory
}

// reader reads what modules consist of. After a failure it returns zeros.
type reader struct {
	rest   []byte
	failed bool
}

func (r *reader) err() error {
	if r.failed {
		return errCut
	}
	return nil
}

func (r *reader) bytes(n uint64) []byte {
	if n > uint64(len(r.rest)) {
		r.failed, r.rest = true, nil
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) byte() byte {
	if b := r.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) uint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.failed, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// int reads a signed number, whose last byte holds the sign in its second highest bit.
func (r *reader) int() int64 {
	var v int64
	for shift := 0; shift < 64; shift += 7 {
		b := r.byte()
		v |= int64(b&0x7f) << shift
		if b < 0x80 {
			if b&0x40 != 0 && shift+7 < 64 {
				v |= -1 << (shift + 7)
			}
			return v
		}
	}
	r.failed = true
	return 0
}

func appendInt(b []byte, v int64) []byte {
	for {
		low := byte(v & 0x7f)
		v >>= 7
		if v == 0 && low&0x40 == 0 || v == -1 && low&0x40 != 0 {
			return append(b, low)
		}
		b = append(b, low|0x80)
	}
}

func appendBytes(b, data []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(data))), data...)
}
