package main

import (
	"fmt"
	"slices"
)

// comparison follows a function and its shorter form, which have the same blocks and branches.
type comparison struct {
	before, after machine
	program       *program // before
	results       int      // how many the function returns
	heights       []int    // of the stack around the blocks that are open
	unreached     bool     // the code here
}

// equal returns an error unless two functions with the same blocks and branches do the same in each piece of code
// between those. It is errUnclear if the code does something that functions of Go's compiler do not do.
func equal(before, after []instruction, results int, module *signatures) error {
	t := newTerms()
	c := &comparison{
		before:  machine{terms: t, module: module, all: before, locals: map[int64]term{}, globals: map[int64]term{}},
		after:   machine{terms: t, module: module, all: after, locals: map[int64]term{}, globals: map[int64]term{}},
		program: newProgram(nil, before, nil),
		results: results,
	}
	for {
		floor := 0
		if n := len(c.heights); n > 0 {
			floor = c.heights[n-1]
		}
		c.before.begin(floor)
		c.after.begin(floor)
		if err := c.before.run(); err != nil {
			return err
		}
		if err := c.after.run(); err != nil {
			return err
		}
		if c.before.at == len(before) || c.after.at == len(after) {
			if c.before.at != len(before) || c.after.at != len(after) {
				return c.differ()
			}
			return nil
		}
		if err := c.control(); err != nil {
			return err
		}
		c.before.at++
		c.after.at++
	}
}

func (c *comparison) differ() error {
	return fmt.Errorf("instruction %d became %d, which does something else", c.before.at, c.after.at)
}

// control compares what was done up to a branch, or to the beginning or the end of a block.
func (c *comparison) control() error {
	b, a := &c.before, &c.after
	i, now := b.all[b.at], a.all[a.at]
	if i.op != now.op || i.value != now.value || !slices.Equal(i.list, now.list) {
		return c.differ()
	}
	b.showGlobals()
	a.showGlobals()
	if !slices.Equal(b.effects, a.effects) {
		return c.differ()
	}
	switch i.op {
	case opIf, opBrIf, opBrTable:
		was, err := b.pop(1)
		is, more := a.pop(1)
		if err != nil || more != nil {
			return errUnclear
		}
		if b.condition(was[0]) != a.condition(is[0]) || i.op == opBrTable && was[0] != is[0] {
			return c.differ()
		}
	}
	return c.leave(i)
}

// leave compares what code elsewhere can see: the stack and the local variables, unless the function returns.
func (c *comparison) leave(i instruction) error {
	b, a := &c.before, &c.after
	switch {
	case i.op == opUnreachable, c.unreached:
	case i.op == opReturn, i.op == opEnd && len(c.heights) == 0:
		was, err := b.pop(c.results)
		is, more := a.pop(c.results)
		if err != nil || more != nil {
			return errUnclear
		}
		if !slices.Equal(was, is) {
			return c.differ()
		}
	case i.op == opBr && c.unwinds(b.at):
	default:
		if b.local(1) != b.global(0) {
			return errUnclear
		}
		for n := range a.locals {
			b.local(n)
		}
		for n, v := range b.locals {
			if a.local(n) != v {
				return c.differ()
			}
		}
		if !slices.Equal(b.stack, a.stack) {
			return c.differ()
		}
	}
	c.unreached = i.op == opBr || i.op == opBrTable || i.op == opReturn || i.op == opUnreachable
	return c.blocks(i)
}

// blocks keeps count of what is on the stack around each block.
func (c *comparison) blocks(i instruction) error {
	b, a := &c.before, &c.after
	switch i.op {
	case opBlock, opLoop, opIf:
		if i.value != void {
			return errUnclear
		}
		c.heights = append(c.heights, len(b.stack))
	case opElse, opEnd:
		if len(c.heights) == 0 {
			return nil
		}
		height := c.heights[len(c.heights)-1]
		if height > len(b.stack) || height > len(a.stack) {
			return errUnclear
		}
		b.stack, a.stack = b.stack[:height], a.stack[:height]
		if i.op == opEnd {
			c.heights = c.heights[:len(c.heights)-1]
		}
	}
	return nil
}

// unwinds reports whether a branch leads to where the function returns 1.
func (c *comparison) unwinds(at int) bool {
	to := c.program.goes[at][0]
	return c.program.is(to, opI32Const, opEnd) && to == len(c.program.all)-2
}
