package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
)

const (
	recordSize = 20 // 4 bytes, the number of a function; and 16 that are 0, because a record is about one function
	perFunc    = 16

	// leastFuncs is how many functions a sequence must cover to be taken for the table: no other data looks like that.
	leastFuncs = 256

	// segmentOverhead is what one more segment takes. Go's linker leaves out as many zeros, too.
	segmentOverhead = 8

	startFunction = "_initialize"
)

// shrink returns the module, rewritten.
func shrink(module []byte) ([]byte, error) {
	all, err := sections(module)
	if err != nil {
		return nil, err
	}
	data := find(all, sectionData)
	old, err := segments(data.body)
	if err != nil {
		return nil, err
	}
	memory := image(old)
	base, records := findTable(memory)
	if records == 0 {
		return module, nil
	}
	if err := straighten(all, memory); err != nil {
		return nil, err
	}
	if err := shortenNames(memory); err != nil {
		return nil, err
	}
	first, err := packedFrom(memory, base)
	if err != nil {
		return nil, err
	}
	without := bytes.Clone(memory)
	table := without[base : base+records*recordSize]
	clear(table)
	packed := pack(memory[first:base])
	if len(packed) > len(table) { // there is no room for them
		first, packed = base, nil
	}
	clear(without[first:base])
	copy(table, packed)
	data.body = appendSegments(nil, split(without))
	if err := verify(data.body, memory, first, base, records); err != nil {
		return nil, err
	}
	if err := addFill(all, unpacking(base, first, base, len(packed)), base, records); err != nil {
		return nil, err
	}
	return join(all), nil
}

// packedFrom returns where the tables begin that are packed, up to the one that is left out. Before Go 1.26 that lies
// in front of the others, and none are packed.
func packedFrom(memory []byte, end int) (int, error) {
	t, at, err := functionTableIn(memory)
	if err != nil {
		return 0, err
	}
	return min(at+int(t.field(fieldFunctions)), end), nil
}

// record returns the number of the function in record k.
func record(k int) uint32 { return uint32(k / perFunc) }

// findTable returns where the table begins and how many records it has, 0 if there is none.
func findTable(memory []byte) (base, records int) {
	var first []byte // the records of the second and the third function
	for k := perFunc; k < 3*perFunc; k++ {
		first = append(binary.LittleEndian.AppendUint32(first, record(k)), make([]byte, recordSize-4)...)
	}
	at := bytes.Index(memory, first)
	base = at - perFunc*recordSize // the first function's records are zeros
	if at < 0 || base < 0 {
		return 0, 0
	}
	for end := base; end+recordSize <= len(memory); end += recordSize {
		r := memory[end : end+recordSize]
		if binary.LittleEndian.Uint32(r) != record(records) || len(bytes.Trim(r[4:], "\x00")) > 0 {
			break
		}
		records++
	}
	if records < leastFuncs*perFunc {
		return 0, 0
	}
	return base, records
}

// split returns the segments that make memory from zeros.
func split(memory []byte) []segment {
	var all []segment
	gap := make([]byte, segmentOverhead)
	for at := 0; at < len(memory); {
		if memory[at] == 0 {
			at++
			continue
		}
		n := bytes.Index(memory[at:], gap)
		if n < 0 {
			n = len(bytes.TrimRight(memory[at:], "\x00"))
		}
		all = append(all, segment{uint64(at), memory[at : at+n]})
		at += n
	}
	return all
}

// verify returns an error unless the segments make memory as it was, once what is packed at base is unpacked in front
// of that, and the sequence is written.
func verify(body, memory []byte, first, base, records int) error {
	all, err := segments(body)
	if err != nil {
		return err
	}
	got := make([]byte, len(memory))
	copy(got, image(all))
	clear(got[base : base+unpack(got[first:base], got[base:])])
	for k := range records {
		binary.LittleEndian.PutUint32(got[base+k*recordSize:], record(k))
	}
	if !bytes.Equal(got, memory) {
		return errors.New("the memory would not be the same")
	}
	return nil
}

// addFill adds a function that unpacks what is packed and fills in the table, and has the module start with it.
func addFill(all []section, unpacking []byte, base, records int) error {
	functions, exports := find(all, sectionFunction), find(all, sectionExport)
	imported, err := importedFunctions(find(all, sectionImport).body)
	if err != nil {
		return err
	}
	at, width, start := startExport(exports.body)
	if at < 0 || start < imported {
		return errors.New("no export " + startFunction)
	}
	own, kind, err := kindOf(functions.body, start-imported)
	if err != nil {
		return err
	}
	functions.add(binary.AppendUvarint(nil, kind))
	find(all, sectionCode).add(appendBytes(nil, fill(unpacking, base, records, start)))
	exports.body = slices.Replace(bytes.Clone(exports.body), at, at+width, binary.AppendUvarint(nil, imported+own)...)
	return nil
}

// importedFunctions returns how many functions a module imports: they are numbered first. Go imports nothing else.
func importedFunctions(body []byte) (uint64, error) {
	r := reader{rest: body}
	n := r.uint()
	for i := uint64(0); i < n && !r.failed; i++ {
		r.bytes(r.uint())
		r.bytes(r.uint())
		if r.byte() != 0 {
			return 0, errors.New("an import that is no function")
		}
		r.uint()
	}
	return n, r.err()
}

// startExport returns the number of the function that the module starts with, where the section of exports has it, and
// its width there. at is -1 if there is none.
func startExport(body []byte) (at, width int, number uint64) {
	r := reader{rest: body}
	for n := r.uint(); n > 0 && !r.failed; n-- {
		name := r.bytes(r.uint())
		function := r.byte() == 0
		before := len(r.rest)
		number = r.uint()
		if function && string(name) == startFunction {
			return len(body) - before, before - len(r.rest), number
		}
	}
	return -1, 0, 0
}

// kindOf returns how many functions a section of functions has, and the type of the one with a number.
func kindOf(body []byte, number uint64) (n, kind uint64, err error) {
	r := reader{rest: body}
	n = r.uint()
	for i := uint64(0); i <= number && !r.failed; i++ {
		kind = r.uint()
	}
	return n, kind, r.err()
}

// fill returns the function that unpacks, writes the records and then calls the function that the module had started
// with.
func fill(unpacking []byte, base, records int, start uint64) []byte {
	const (
		i32, void            = 0x7f, 0x40
		loop, brIf, call     = 0x03, 0x0d, 0x10
		get, tee             = 0x20, 0x22
		store                = 0x36
		add, mul, shiftRight = 0x6a, 0x6c, 0x76
		less                 = 0x49
	)
	f := append([]byte{1, 4, i32}, unpacking...)
	f = append(f, loop, void) // local variable 0 is k, the record's number
	f = append(f, get, 0, opI32Const, recordSize, mul)
	f = append(f, get, 0, opI32Const, 4, shiftRight) // perFunc is 1<<4
	f = binary.AppendUvarint(append(f, store, 0), uint64(base))
	f = append(f, get, 0, opI32Const, 1, add, tee, 0)
	f = appendInt(append(f, opI32Const), int64(records))
	f = append(f, less, brIf, 0, opEnd)
	return append(binary.AppendUvarint(append(f, call), start), opEnd)
}
