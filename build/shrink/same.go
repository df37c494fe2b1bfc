package main

import "fmt"

// program is a function as a machine runs it: with the place to which each instruction can lead.
type program struct {
	parser
	after []int   // where a block ends, for what opens it; where an if goes on behind its else, for the else
	other []int   // where an if goes on when the condition does not hold
	goes  [][]int // where branches lead
}

func newProgram(body []byte, all []instruction, ends map[int64]bool) *program {
	n := len(all)
	p := &program{parser{body: body, all: all, ends: ends}, make([]int, n), make([]int, n), make([][]int, n)}
	p.findEnds()
	var open []int
	for at, i := range all {
		switch i.op {
		case opBlock, opLoop, opIf:
			open = append(open, at)
		case opEnd:
			open = open[:max(0, len(open)-1)]
		case opElse:
			p.after[at] = p.after[open[len(open)-1]]
		case opBr, opBrIf:
			p.goes[at] = []int{p.target(open, int(i.value))}
		case opBrTable:
			for _, depth := range i.list {
				p.goes[at] = append(p.goes[at], p.target(open, depth))
			}
		}
	}
	return p
}

// findEnds notes where blocks end.
func (p *program) findEnds() {
	var open []int
	for at, i := range p.all {
		switch i.op {
		case opBlock, opLoop, opIf:
			open = append(open, at)
		case opElse:
			p.other[open[len(open)-1]] = at + 1
		case opEnd:
			if len(open) == 0 {
				continue // of the function
			}
			from := open[len(open)-1]
			open = open[:len(open)-1]
			p.after[from] = at + 1
			if p.other[from] == 0 {
				p.other[from] = at + 1
			}
		}
	}
}

// target returns where a branch leads that leaves some blocks.
func (p *program) target(open []int, depth int) int {
	if depth >= len(open) {
		return len(p.all) - 1
	}
	from := open[len(open)-1-depth]
	if p.all[from].op == opLoop {
		return from
	}
	return p.after[from]
}

// setsNumber reports whether a jump through the table begins at an instruction.
func (p *program) setsNumber(at int, branch byte) bool {
	return p.is(at, opI32Const, opLocalSet, branch) && p.all[at+1].value == 0
}

// settle returns the next instruction that does something, from one on. number is that of a region if it was set for
// the table, else -1. In an endless loop without any there is none, and it returns the number of instructions.
func (p *program) settle(at, number int) int {
	for range 2*len(p.all) + 1 {
		switch i := p.all[at]; {
		case i.op == opBlock, i.op == opLoop, i.op == opEnd && at < len(p.all)-1:
			at++
		case i.op == opElse:
			at = p.after[at]
		case i.op == opBr:
			at = p.goes[at][0]
		case p.setsNumber(at, opBr):
			number = int(i.value)
			at += 2
		case number >= 0 && p.is(at, opLocalGet, opBrTable):
			goes := p.goes[at+1]
			at, number = goes[min(number, len(goes)-1)], -1
		default:
			return at
		}
	}
	return len(p.all)
}

// step returns what an instruction does, and where the function goes on.
func (p *program) step(at int) (does string, next []int) {
	const condition = "condition"
	if at == len(p.all) {
		return "nothing, forever", nil
	}
	i := p.all[at]
	switch {
	case i.op == opIf:
		return condition, []int{p.settle(at+1, -1), p.settle(p.other[at], -1)}
	case p.setsNumber(at, opBrIf):
		return condition, []int{p.settle(p.goes[at+2][0], int(i.value)), p.settle(at+3, -1)}
	case i.op == opBrIf:
		return condition, []int{p.settle(p.goes[at][0], -1), p.settle(at+1, -1)}
	case i.op == opBrTable:
		for _, to := range p.goes[at] {
			next = append(next, p.settle(to, -1))
		}
	case i.op == opUnreachable, i.op == opReturn, at == len(p.all)-1, i.op == opCall && p.ends[i.value]:
	default:
		next = []int{p.settle(at+1, -1)}
	}
	if i.op == opBrTable {
		return "table", next // its depths may differ
	}
	return string(p.body[i.at:p.offset(at+1)]), next
}

// same returns an error unless two functions that begin with the same head do the same, called with some numbers: both
// are followed step by step, along all ways.
func same(before, after *program, numbers map[int]bool) error {
	type pair struct{ a, b int }
	var work []pair
	for number := range numbers {
		work = append(work, pair{before.settle(2, number), after.settle(2, number)})
	}
	done := map[pair]bool{}
	for len(work) > 0 {
		at := work[len(work)-1]
		work = work[:len(work)-1]
		if done[at] {
			continue
		}
		done[at] = true
		does, next := before.step(at.a)
		got, to := after.step(at.b)
		if does != got || len(next) != len(to) {
			return fmt.Errorf("instruction %d became %d, which does something else", at.a, at.b)
		}
		for i := range next {
			work = append(work, pair{next[i], to[i]})
		}
	}
	return nil
}
