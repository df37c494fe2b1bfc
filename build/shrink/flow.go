package main

// flow is a function as Go's compiler writes it: regions of code, one behind the other, each of which continues in the
// next one or jumps to any other. It begins in one of them, by the number that it is called with.
type flow struct {
	head    []byte // the local variables, and what is done before the first region
	unwinds bool   // code in the regions leaves the function to unwind the stack
	table   []int  // the region where it begins, by number; the last one for all higher numbers
	regions []region
}

// region is code that is entered at its beginning only.
type region struct {
	pieces []piece
	next   int // the region in which it continues; nowhere, or the number of regions behind the last one
}

// nowhere is where a region continues whose end is never reached.
const nowhere = -1

// piece is code that is copied, and then a jump.
type piece struct {
	code   []byte
	jump   jump
	number int // of the region to jump to, as in the table
	inside int // how many blocks of the code are around the jump
}

// jump is how a piece ends.
type jump byte

const (
	none jump = iota
	always
	onCondition // which is on the stack
	unwind
	unwindOnCondition
)

// parser reads a function.
type parser struct {
	flow
	body   []byte
	all    []instruction
	loops  bool           // jumps go to a loop around the regions, which reads a number again
	ends   map[int64]bool // the functions that never return
	last   int            // the last region's number
	copied int            // up to here, the code is in pieces
	depth  int            // how many blocks of the code are open
}

// parse returns nil for a function that does not look like that.
func parse(body []byte, all []instruction, ends map[int64]bool) *flow {
	p := &parser{body: body, all: all, ends: ends}
	if next := p.parseHead(); next == 0 || !p.parseRegions(next) {
		return nil
	}
	return &p.flow
}

// is reports whether instructions follow from number at, by their codes.
func (p *parser) is(at int, ops ...byte) bool {
	if at < 0 || at+len(ops) > len(p.all) {
		return false
	}
	for i, op := range ops {
		if p.all[at+i].op != op {
			return false
		}
	}
	return true
}

// parseHead reads up to the first region and returns where that begins, 0 if this is another function. All begin so:
// the stack pointer is copied, and after one block for each region a table of branches leads to their ends.
func (p *parser) parseHead() int {
	if !p.is(0, opGlobalGet, opLocalSet) || p.all[0].value != 0 || p.all[1].value != 1 {
		return 0
	}
	at, blocks, before := 2, 0, 0
	for ; p.is(at, opBlock) || p.is(at, opLoop); at++ {
		if p.all[at].value != void || p.is(at, opLoop) && p.loops {
			return 0
		}
		if p.is(at, opLoop) {
			p.loops, before = true, blocks
		} else {
			blocks++
		}
	}
	if !p.is(at, opLocalGet, opBrTable, opEnd) || p.all[at].value != 0 {
		return 0
	}
	p.table = p.all[at+1].list
	p.last = p.table[len(p.table)-1]
	for _, region := range p.table {
		if region > p.last {
			return 0
		}
	}
	outside := blocks - p.last - 1
	if outside < 0 || outside > 1 || p.loops && before != outside {
		return 0
	}
	p.unwinds = outside == 1
	p.head = p.body[:p.all[2].at]
	p.regions = make([]region, 1, p.last+1)
	p.copied = p.all[at+3].at
	return at + 3
}

// parseRegions reads the regions from an instruction on, and reports whether that was all as expected.
func (p *parser) parseRegions(at int) bool {
	for ; at < len(p.all); at++ {
		i := p.all[at]
		switch i.op {
		case opBlock, opLoop, opIf:
			p.depth++
		case opEnd:
			switch {
			case p.depth > 0:
				p.depth--
			case len(p.regions) <= p.last:
				p.finish(at)
				p.regions = append(p.regions, region{})
			default:
				return p.parseTail(at)
			}
		case opBr, opBrIf:
			if skip, ok := p.parseBranch(at); ok {
				at += skip
			} else {
				return false
			}
		case opBrTable:
			for _, depth := range i.list {
				if depth >= p.depth {
					return false
				}
			}
		}
	}
	return false
}

// finish ends a region before an instruction.
func (p *parser) finish(at int) {
	p.take(p.offset(at), p.offset(at+1))
	r := p.current()
	switch r.next = len(p.regions); {
	case p.is(at-1, opReturn), p.is(at-1, opUnreachable), p.is(at-1, opBr), p.is(at-1, opBrIf) && p.calledEnds(at-1):
		r.next = nowhere
	}
}

func (p *parser) current() *region { return &p.regions[len(p.regions)-1] }

// offset returns where an instruction is in the body.
func (p *parser) offset(at int) int {
	if at < len(p.all) {
		return p.all[at].at
	}
	return len(p.body)
}

// take adds the code before an offset to the region, and goes on at another one.
func (p *parser) take(end, next int) *piece {
	r := p.current()
	r.pieces = append(r.pieces, piece{code: p.body[p.copied:end], inside: p.depth})
	p.copied = next
	return &r.pieces[len(r.pieces)-1]
}

// parseBranch reads a branch, and returns how many instructions behind it belong to it. ok is false if it is none that
// the compiler writes.
func (p *parser) parseBranch(at int) (skip int, ok bool) {
	i := p.all[at]
	outside := int(i.value) - p.depth
	if outside < 0 {
		return 0, true // of the code itself
	}
	if outside -= p.last + 1 - len(p.regions); outside < 0 {
		return 0, false
	}
	if p.loops {
		if outside == 0 {
			return p.parseJump(at)
		}
		outside--
	}
	if !p.unwinds || outside > 0 {
		return 0, false
	}
	switch {
	case i.op == opBr:
		p.take(i.at, p.offset(at+1)).jump = unwind
	case p.calledEnds(at):
		p.take(p.offset(at-2), p.offset(at+1)).jump = unwind // the stack pointer is not needed any more
	default:
		p.take(i.at, p.offset(at+1)).jump = unwindOnCondition
	}
	return 0, true
}

// calledEnds reports whether a condition to unwind the stack is the result of a function that never returns.
func (p *parser) calledEnds(at int) bool {
	return p.is(at-3, opCall, opGlobalGet, opLocalSet) && p.ends[p.all[at-3].value]
}

// parseJump reads a jump to another region: its number is set, and the loop begins again.
func (p *parser) parseJump(at int) (skip int, ok bool) {
	first := at - 2
	if !p.is(first, opI32Const, opLocalSet, opBr) || p.all[at-1].value != 0 || p.offset(first) < p.copied {
		return 0, false
	}
	number := int(p.all[first].value)
	how := always
	if p.is(first-1, opIf) && p.is(at+1, opEnd) && p.all[first-1].value == void && p.offset(first-1) >= p.copied {
		first, skip, how = first-1, 1, onCondition
		p.depth--
	}
	piece := p.take(p.offset(first), p.offset(at+1+skip))
	piece.jump, piece.number = how, number
	return skip, number >= 0
}

// parseTail reads from the end of the last region to that of the function, which is never reached that way.
func (p *parser) parseTail(at int) bool {
	if p.loops {
		p.finish(at)
		if at++; !p.is(at, opUnreachable) {
			return false
		}
		at++
	} else {
		if !p.is(at-1, opUnreachable) || p.offset(at-1) < p.copied {
			return false
		}
		p.finish(at - 1)
	}
	if p.unwinds {
		if !p.is(at, opEnd, opI32Const) || p.all[at+1].value != 1 {
			return false
		}
		at += 2
	}
	return p.is(at, opEnd) && at == len(p.all)-1
}

// region returns where a jump leads.
func (f *flow) region(number int) int {
	return f.table[min(number, len(f.table)-1)]
}
