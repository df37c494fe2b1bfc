package main

import (
	"encoding/binary"
	"slices"
	"testing"
)

// older returns a module whose table lies in front of the others, where Go's linker put it before 1.26.
func older(t *testing.T, module []byte) []byte {
	t.Helper()
	all, err := sections(module)
	if err != nil {
		t.Fatal(err)
	}
	memory := memoryBefore(t, module)
	base, records := findTable(memory)
	table, at, err := functionTableIn(memory)
	if err != nil {
		t.Fatal(err)
	}
	if base < at {
		return module
	}
	begin, err := moduledataIn(memory, table, at)
	if err != nil {
		t.Fatal(err)
	}
	const findfunctabField, etypesField = 19, 38 // types end where the tables begin
	size := (records*recordSize + 7) &^ 7
	for k := range uint64(gofuncField + 1) {
		word := memory[begin+8*k:][:8]
		switch v := int(binary.LittleEndian.Uint64(word)); {
		case k == findfunctabField:
			binary.LittleEndian.PutUint64(word, uint64(at))
		case k != etypesField && at <= v && v < base:
			binary.LittleEndian.PutUint64(word, uint64(v+size))
		}
	}
	moved := slices.Concat(memory[base:base+size], memory[at:base])
	copy(memory[at:], moved)
	find(all, sectionData).body = appendSegments(nil, split(memory))
	return join(all)
}

// Tables are packed that lie in front of the one that is left out.
func TestPackedFrom(t *testing.T) {
	memory := memoryBefore(t, older(t, build(t)))
	base, records := findTable(memory)
	if first, err := packedFrom(memory, base); err != nil || first != base || records == 0 {
		t.Errorf("from %d to %d with %d records: %v", first, base, records, err)
	}
	end := len(memory)
	if first, err := packedFrom(memory, end); err != nil || first <= base || first >= end {
		t.Errorf("from %d to %d: %v", first, end, err)
	}
}
