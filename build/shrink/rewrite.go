package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
)

// straighten rewrites all functions of a module with this memory, so that they jump by branches. Go's compiler has them
// set a number and begin a loop again, around all of the code, in which a table leads to the place of the number. To a
// compiler of Wasm such a function is one loop in which everything may follow on everything.
func straighten(all []section, memory []byte) error {
	imported, err := importedFunctions(find(all, sectionImport).body)
	if err != nil {
		return err
	}
	slots, err := tableSlots(find(all, sectionElement).body)
	if err != nil {
		return err
	}
	code := find(all, sectionCode)
	bodies, err := functionBodies(code.body)
	if err != nil {
		return err
	}
	functions, err := functionsOf(memory, len(bodies))
	if err != nil {
		return err
	}
	module, err := signaturesOf(all)
	if err != nil {
		return err
	}
	r := newRewriter(functions, imported)
	o := newOutliner(numbersOf(functions, imported, calledRarely), module, len(bodies))
	if err := r.read(bodies); err != nil {
		return err
	}
	var out []byte
	for i := range bodies {
		body, err := r.function(i, slots[imported+uint64(i)])
		if err == nil {
			body, err = o.shorten(imported+uint64(i), body)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", functions[i].name, err)
		}
		out = appendBytes(out, body)
	}
	code.body = append(binary.AppendUvarint(nil, uint64(len(bodies))), out...)
	o.addStubs(all)
	return nil
}

// rewriter rewrites functions.
type rewriter struct {
	functions []function
	ends      map[int64]bool // the functions that never return
	grows     map[int64]bool // of these, the ones that grow the stack
	bodies    [][]byte
	decoded   [][]instruction
	resumes   map[int64]map[int]bool // the numbers with which functions are resumed, by their slots
}

func newRewriter(functions []function, imported uint64) *rewriter {
	return &rewriter{
		functions: functions,
		ends:      numbersOf(functions, imported, neverReturns),
		grows:     numbersOf(functions, imported, growsStack),
		resumes:   map[int64]map[int]bool{},
	}
}

// read takes the functions' bodies.
func (r *rewriter) read(bodies [][]byte) error {
	for _, body := range bodies {
		all, err := instructions(body, codeStart(body))
		if err != nil {
			return err
		}
		r.bodies, r.decoded = append(r.bodies, body), append(r.decoded, all)
		r.collectResumes(all)
	}
	return nil
}

// function returns the body of a function anew, and an error if it would do something else.
func (r *rewriter) function(i int, slot int64) ([]byte, error) {
	body, all := r.bodies[i], r.decoded[i]
	f := parse(body, all, r.ends)
	if f == nil || slot == 0 {
		return body, nil
	}
	numbers := f.entries(r.resumes[slot], r.functions[i].deferred)
	anew := f.lay(maps.Clone(numbers)).encode()
	now, err := instructions(anew, codeStart(anew))
	if err != nil {
		return nil, err
	}
	return anew, same(newProgram(body, all, r.ends), newProgram(anew, now, r.ends), numbers)
}

// collectResumes notes the numbers with which functions are resumed. They come from return addresses, which are in the
// code. What looks like one and is another number does no harm.
func (r *rewriter) collectResumes(all []instruction) {
	for at, i := range all {
		if i.op != opI64Const || i.value>>numberBits <= 0 {
			continue
		}
		if p := (parser{all: all}); p.is(at+1, opI64Store, opI32Const, opCall) {
			if callee := all[at+3].value; r.ends[callee] && !r.grows[callee] {
				continue
			}
		}
		slot := i.value >> numberBits
		if r.resumes[slot] == nil {
			r.resumes[slot] = map[int]bool{}
		}
		r.resumes[slot][int(i.value&(1<<numberBits-1))] = true
	}
}

// entries returns the numbers that the function is called with.
func (f *flow) entries(resumed map[int]bool, deferred int) map[int]bool {
	all := map[int]bool{0: true, deferred: true}
	for number := range resumed {
		if number < len(f.table) {
			all[number] = true
		}
	}
	return all
}

// functionBodies splits a section of code.
func functionBodies(body []byte) ([][]byte, error) {
	r := reader{rest: body}
	var all [][]byte
	for n := r.uint(); n > 0 && !r.failed; n-- {
		all = append(all, r.bytes(r.uint()))
	}
	return all, r.err()
}

// tableSlots returns where the functions are in the table of functions, which is half of their program counters.
func tableSlots(body []byte) (map[uint64]int64, error) {
	r := reader{rest: body}
	n, mode, op, slot, end := r.uint(), r.uint(), r.byte(), r.int(), r.byte()
	if !r.failed && (n != 1 || mode != 0 || op != opI32Const || end != opEnd) {
		return nil, errors.New("more than one list of functions for the table")
	}
	slots := map[uint64]int64{}
	for k := r.uint(); k > 0 && !r.failed; k-- {
		slots[r.uint()] = slot
		slot++
	}
	return slots, r.err()
}
