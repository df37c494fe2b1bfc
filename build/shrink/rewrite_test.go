package main

import (
	"bytes"
	gobuild "go/build"
	"maps"
	"slices"
	"testing"
)

// read returns a module's functions, as straighten has them, and their slots.
func read(t *testing.T, module []byte) (*rewriter, []int64) {
	t.Helper()
	all, err := sections(module)
	if err != nil {
		t.Fatal(err)
	}
	imported, err := importedFunctions(find(all, sectionImport).body)
	if err != nil {
		t.Fatal(err)
	}
	bodies, err := functionBodies(find(all, sectionCode).body)
	if err != nil {
		t.Fatal(err)
	}
	functions, err := functionsOf(memoryBefore(t, module), len(bodies))
	if err != nil {
		t.Fatal(err)
	}
	r := newRewriter(functions, imported)
	if err := r.read(bodies); err != nil {
		t.Fatal(err)
	}
	bySlot, err := tableSlots(find(all, sectionElement).body)
	if err != nil {
		t.Fatal(err)
	}
	slots := make([]int64, len(bodies))
	for i := range slots {
		slots[i] = bySlot[imported+uint64(i)]
	}
	return r, slots
}

// A function is resumed behind calls that return, and where its stack has grown; not behind those that end it.
func TestCollectResumes(t *testing.T) {
	const ends, grows = 1, 2
	functions := []function{{name: "main.main"}, {name: "runtime.gopanic"}, {name: "runtime.morestack"}}
	for callee, resumed := range map[byte]bool{rare: true, ends: false, grows: true} {
		r := newRewriter(functions, 0)
		if err := r.read([][]byte{framed(pushed(callee))}); err != nil {
			t.Fatal(err)
		}
		if got := r.resumes[firstFunction+looked][5]; got != resumed {
			t.Errorf("%s: resumed: %t, not %t", functions[callee].name, got, resumed)
		}
	}
}

// jumpsBack reports whether a function jumps back, and whether it does so through its table.
func jumpsBack(l *layout) (some, byTable bool) {
	for _, e := range l.edges() {
		if e.from >= e.to {
			some, byTable = true, byTable || l.again[e.to]
		}
	}
	return some, byTable
}

// Nearly all functions of a real module are rewritten, and become smaller. Of those that call nothing, and so are never
// resumed, most jump back to loops only.
func TestStraighten(t *testing.T) {
	r, slots := read(t, build(t))
	var before, after, tables, rewritten, back, byTable int
	for i, body := range r.bodies {
		got, err := r.function(i, slots[i])
		if err != nil {
			t.Errorf("%s: %v", r.functions[i].name, err)
		}
		before, after = before+len(body), after+len(got)
		p := &parser{all: r.decoded[i]}
		for at := range p.all {
			if p.is(at, opLocalGet, opBrTable, opEnd) && p.all[at].value == 0 {
				tables++
				break
			}
		}
		f := parse(body, r.decoded[i], r.ends)
		if f == nil {
			continue
		}
		rewritten++
		numbers := f.entries(r.resumes[slots[i]], r.functions[i].deferred)
		if some, through := jumpsBack(f.lay(maps.Clone(numbers))); len(numbers) == 1 && some {
			back++
			if through {
				byTable++
			}
		}
	}
	most := 4
	if !slices.Contains(gobuild.Default.ReleaseTags, "go1.26") {
		most = 2 // the compilers before let more loops begin in the middle
	}
	if back == 0 || byTable*most > back {
		t.Errorf("%d functions of %d jump back through their table", byTable, back)
	}
	if rewritten*10 < tables*9 {
		t.Errorf("%d functions of %d rewritten: has the compiler changed?", rewritten, tables)
	}
	if after > before*19/20 {
		t.Errorf("%d bytes of code became %d", before, after)
	}
}

// A function that does something else is not taken for the same: a changed number or another target is noticed, unless
// what is there does the same.
func TestSameNotices(t *testing.T) {
	r, slots := read(t, build(t))
	changed, missed := 0, 0
	for i, body := range r.bodies {
		f := parse(body, r.decoded[i], r.ends)
		if f == nil || len(body) > 1000 {
			continue
		}
		numbers := f.entries(r.resumes[slots[i]], r.functions[i].deferred)
		anew := f.lay(maps.Clone(numbers)).encode()
		all, err := instructions(anew, codeStart(anew))
		if err != nil {
			t.Fatal(err)
		}
		before, now := newProgram(body, r.decoded[i], r.ends), newProgram(anew, all, r.ends)
		for _, at := range reached(now, numbers) {
			if all[at].op != opBrIf && all[at].op != opI64Const {
				continue
			}
			bad := bytes.Clone(anew)
			bad[all[at].at+1] ^= 1
			other, err := instructions(bad, codeStart(bad))
			if err != nil {
				t.Fatal(err)
			}
			p := newProgram(bad, other, r.ends)
			_, was := now.step(at)
			if _, leads := p.step(at); all[at].op == opBrIf && slices.Equal(leads, was) {
				continue
			}
			changed++
			if same(before, p, numbers) != nil {
				continue
			}
			if missed++; all[at].op == opI64Const {
				t.Errorf("%s: a number was changed, and nobody noticed", r.functions[i].name)
			}
		}
		if changed > 5000 {
			break
		}
	}
	if changed == 0 || missed > changed/50 {
		t.Errorf("%d of %d changes not noticed", missed, changed)
	}
}

// reached returns the instructions that a function can reach, without the end of the code, where endless loops lead.
func reached(p *program, numbers map[int]bool) []int {
	var work []int
	for number := range numbers {
		work = append(work, p.settle(2, number))
	}
	done := map[int]bool{}
	for len(work) > 0 {
		at := work[len(work)-1]
		work = work[:len(work)-1]
		if !done[at] && at < len(p.all) {
			done[at] = true
			_, next := p.step(at)
			work = append(work, next...)
		}
	}
	return slices.Sorted(maps.Keys(done))
}
