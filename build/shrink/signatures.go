package main

// signatures says what functions take and return.
type signatures struct {
	functions, types []signature             // by their numbers
	stubs            map[int64][]instruction // what functions do whose code counts as that of their callers
}

type signature struct{ params, results int }

// signaturesOf reads those of a module.
func signaturesOf(all []section) (*signatures, error) {
	s := &signatures{stubs: map[int64][]instruction{}}
	r := reader{rest: find(all, sectionType).body}
	for n := r.uint(); n > 0 && !r.failed; n-- {
		r.byte() // what each type begins with
		params := r.uint()
		r.bytes(params)
		results := r.uint()
		r.bytes(results)
		s.types = append(s.types, signature{int(params), int(results)})
	}
	if r.failed {
		return nil, errCut
	}
	r = reader{rest: find(all, sectionImport).body}
	for n := r.uint(); n > 0 && !r.failed; n-- {
		r.bytes(r.uint())
		r.bytes(r.uint())
		r.byte()
		s.add(&r)
	}
	if r.failed {
		return nil, errCut
	}
	r = reader{rest: find(all, sectionFunction).body}
	for n := r.uint(); n > 0 && !r.failed; n-- {
		s.add(&r)
	}
	return s, r.err()
}

// add reads the number of a function's type.
func (s *signatures) add(r *reader) {
	if kind := r.uint(); kind < uint64(len(s.types)) {
		s.functions = append(s.functions, s.types[kind])
	} else {
		r.failed = true
	}
}

// addStub adds a function that counts as a part of its callers.
func (s *signatures) addStub(code []instruction, params int) {
	s.stubs[int64(len(s.functions))] = code
	s.functions = append(s.functions, signature{params, 1})
}
