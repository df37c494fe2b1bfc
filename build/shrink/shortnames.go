package main

import (
	"bytes"
	"encoding/binary"
	"maps"
	"slices"
	"strings"
)

// modulePath begins the names of Warmgate's own functions. No folder directly in it may be called runtime or reflect:
// without the path, stack traces would take its functions for those of Go's packages.
const modulePath = "github.com/warmgate/warmgate/"

// shortName returns a function's name as it is kept for stack traces: without type arguments, in place of which the
// runtime prints "[...]" anyway, and without the module's path, which is part of the file's name in the line below.
func shortName(name string) string {
	if first, last := strings.IndexByte(name, '['), strings.LastIndexByte(name, ']'); first >= 0 && last > first {
		name = name[:first] + "[...]" + name[last+1:]
	}
	return strings.TrimPrefix(name, modulePath)
}

// shortenNames writes short names into the runtime's table of functions in memory. What they leave free is zero.
func shortenNames(memory []byte) error {
	t, _, err := functionTableIn(memory)
	if err != nil {
		return err
	}
	places, err := namePlaces(memory)
	if err != nil {
		return err
	}
	names := map[uint32]string{} // by their offsets
	for _, at := range places {
		offset := uint32(fixed(memory, at, 4))
		if names[offset], err = t.name(uint64(offset)); err != nil {
			return err
		}
	}
	var table []byte
	moved, known := map[uint32]uint32{}, map[string]uint32{}
	for _, offset := range slices.Sorted(maps.Keys(names)) {
		name := shortName(names[offset])
		if _, ok := known[name]; !ok {
			known[name] = uint32(len(table))
			table = append(append(table, name...), 0)
		}
		moved[offset] = known[name]
	}
	first, end := t.field(fieldNames), t.field(fieldUnits)
	if first > end || end-first < uint64(len(table)) {
		return errNames
	}
	clear(t[first:end])
	copy(t[first:end], table)
	for _, at := range places {
		binary.LittleEndian.PutUint32(memory[at:], moved[uint32(fixed(memory, at, 4))])
	}
	return nil
}

// These are where the runtime's data about a function has what is needed here, as Go 1.24 to 1.26 write it.
const (
	gofuncField  = 40 // of runtime.moduledata, in words: where lists of calls begin
	inlinedValue = 2  // the list of values by program counters with the number of an inlined call
	inlinedCalls = 3  // the list of these calls
	inlinedSize  = 16 // of each
)

// namePlaces returns where memory has the offsets of names, in order: of functions, and of calls inlined into them.
func namePlaces(memory []byte) (places []uint64, err error) {
	t, at, err := functionTableIn(memory)
	if err != nil {
		return nil, err
	}
	module, err := moduledataIn(memory, t, at)
	if err != nil {
		return nil, err
	}
	gofunc := fixed(memory, module+8*gofuncField, 8)
	for i := range t.field(fieldCount) {
		record := t.record(i)
		places = append(places, uint64(at)+record+4)
		calls := t.callsOf(record)
		if calls == 0 {
			continue
		}
		last, err := t.largest(fixed(t, record+44+4*inlinedValue, 4))
		if err != nil {
			return nil, err
		}
		for k := int64(0); k <= last; k++ {
			places = append(places, gofunc+fixed(t, calls, 4)+inlinedSize*uint64(k)+4)
		}
	}
	slices.Sort(places)
	for k, at := range places {
		if at+4 > uint64(len(memory)) || k > 0 && at < places[k-1]+4 {
			return nil, errNames
		}
	}
	return places, nil
}

// callsOf returns where a function's record says where the calls are that were inlined into it, 0 if there are none.
func (t functionTable) callsOf(record uint64) uint64 {
	values, data := fixed(t, record+28, 4), fixed(t, record+40, 4)>>24
	calls := record + 44 + 4*(values+inlinedCalls)
	if values <= inlinedValue || data <= inlinedCalls || fixed(t, calls, 4) == 1<<32-1 {
		return 0
	}
	return calls
}

// moduledataIn returns where memory has runtime.moduledata, which begins with where the table is and its names are.
func moduledataIn(memory []byte, t functionTable, at int) (uint64, error) {
	begin := binary.LittleEndian.AppendUint64(nil, uint64(at))
	begin = binary.LittleEndian.AppendUint64(begin, uint64(at)+t.field(fieldNames))
	module := bytes.Index(memory, begin)
	if module < 0 {
		return 0, errNames
	}
	return uint64(module), nil
}

// largest returns the largest of a list of values by program counters: each is the difference to the one before, which
// begins with -1, and how far it goes.
func (t functionTable) largest(list uint64) (int64, error) {
	begin := t.field(fieldValues) + list
	if list == 0 || begin > uint64(len(t)) {
		return -1, nil
	}
	r := reader{rest: t[begin:]}
	value, largest := int64(-1), int64(-1)
	for first := true; !r.failed; first = false {
		difference := r.uint()
		if difference == 0 && !first {
			break
		}
		value += int64(difference>>1) ^ -int64(difference&1)
		largest = max(largest, value)
		r.uint()
	}
	return largest, r.err()
}
