package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"

	"github.com/warmgate/warmgate/redisclient"
	"github.com/warmgate/warmgate/redisclient/lua"
)

// luaGlobals lists what Redis has its scripts find, as far as they may use it: what makes a script's effect depend on
// anything but its arguments and the keys is not there.
var luaGlobals = strings.Fields(
	"ARGV KEYS _G ipairs math next pairs redis string struct table tonumber type unpack",
)

// luaScripts returns what is wrong in the scripts of package redisclient.
func luaScripts() []string {
	var c luaChecker
	for _, name := range redisclient.ScriptNames() {
		c.check(lua.Lines(name))
	}
	return c.problems()
}

// luaChecker checks scripts: that they use no global variable but those that Redis has, that each local one is read
// somewhere, and that none hides another of the same file or of the same block. Lua takes none of these mistakes for an
// error before the line runs.
type luaChecker struct {
	lines []lua.Line  // of the present script
	scope []*luaLocal // what is visible
	outer int         // how much of scope is from around the present block
	wrong []string
	// unread has where each local variable is declared, and whether no script that has it reads it.
	unread map[string]bool
}

// luaLocal is a local variable in the present scope or in one around it.
type luaLocal struct {
	name  string
	file  string
	place string // "file:line: name"
}

// check checks one script.
func (c *luaChecker) check(lines []lua.Line) {
	c.lines, c.scope, c.outer = lines, nil, 0
	var text strings.Builder
	for _, l := range lines {
		text.WriteString(l.Text + "\n")
	}
	chunk, err := parse.Parse(strings.NewReader(text.String()), "script")
	if err != nil {
		line := 1
		if e, ok := err.(*parse.Error); ok {
			line = min(max(e.Pos.Line, 1), len(lines)) // the end of the text is no line
		}
		c.report(line, strings.TrimSpace(err.Error()))
		return
	}
	c.block(chunk)
}

// problems returns what was found, in the order of the files.
func (c *luaChecker) problems() []string {
	for place, unread := range c.unread {
		if unread {
			c.wrong = append(c.wrong, place+" is never read")
		}
	}
	slices.Sort(c.wrong)
	return slices.Compact(c.wrong)
}

// place returns where a line of the present script is.
func (c *luaChecker) place(line int) string {
	l := c.lines[line-1]
	return fmt.Sprintf("redisclient/lua/%s.lua:%d: ", l.File, l.Number)
}

func (c *luaChecker) report(line int, text string) { c.wrong = append(c.wrong, c.place(line)+text) }

// declare adds local variables to the present scope. A variable "_" is one that is not needed.
func (c *luaChecker) declare(line int, names ...string) {
	if c.unread == nil {
		c.unread = map[string]bool{}
	}
	for _, name := range names {
		if name == "_" {
			continue
		}
		l := &luaLocal{name, c.lines[line-1].File, c.place(line) + name}
		if i := c.find(name); i >= c.outer || i >= 0 && c.scope[i].file == l.file {
			c.report(line, fmt.Sprintf("%s hides %s", name, c.scope[i].place))
		}
		c.scope = append(c.scope, l)
		if _, known := c.unread[l.place]; !known {
			c.unread[l.place] = true
		}
	}
}

// find returns the index in scope of the local variable with the name, -1 if there is none.
func (c *luaChecker) find(name string) int {
	for i, l := range slices.Backward(c.scope) {
		if l.name == name {
			return i
		}
	}
	return -1
}

// read notes that a variable is read.
func (c *luaChecker) read(line int, name string) {
	if i := c.find(name); i >= 0 {
		c.unread[c.scope[i].place] = false
	} else if !slices.Contains(luaGlobals, name) {
		c.report(line, name+" is not declared")
	}
}

// write notes that a variable is assigned.
func (c *luaChecker) write(e ast.Expr) {
	ident, ok := e.(*ast.IdentExpr)
	if !ok {
		c.expr(e)
	} else if c.find(ident.Value) < 0 {
		c.report(ident.Line(), ident.Value+" is not declared")
	}
}

// block checks statements in a scope of their own, in which there are the given variables.
func (c *luaChecker) block(stmts []ast.Stmt, vars ...luaVar) {
	outer := c.outer
	c.outer = len(c.scope)
	for _, v := range vars {
		c.declare(v.line, v.names...)
	}
	for _, s := range stmts {
		c.stmt(s)
	}
	c.scope, c.outer = c.scope[:c.outer], outer
}

// luaVar is what a loop or a function declares.
type luaVar struct {
	line  int
	names []string
}

func (c *luaChecker) stmt(s ast.Stmt) {
	switch s := s.(type) {
	case *ast.LocalAssignStmt:
		c.local(s)
	case *ast.AssignStmt:
		c.exprs(s.Rhs...)
		for _, e := range s.Lhs {
			c.write(e)
		}
	case *ast.FuncCallStmt:
		c.expr(s.Expr)
	case *ast.DoBlockStmt:
		c.block(s.Stmts)
	case *ast.WhileStmt:
		c.expr(s.Condition)
		c.block(s.Stmts)
	case *ast.RepeatStmt: // the condition may use what the block declares
		c.block(append(slices.Clone(s.Stmts), &ast.ReturnStmt{Exprs: []ast.Expr{s.Condition}}))
	case *ast.IfStmt:
		c.expr(s.Condition)
		c.block(s.Then)
		c.block(s.Else)
	case *ast.NumberForStmt:
		c.exprs(s.Init, s.Limit, s.Step)
		c.block(s.Stmts, luaVar{s.Line(), []string{s.Name}})
	case *ast.GenericForStmt:
		c.exprs(s.Exprs...)
		c.block(s.Stmts, luaVar{s.Line(), s.Names})
	case *ast.FuncDefStmt: // function q.name()
		if s.Name.Func != nil {
			c.write(s.Name.Func)
		}
		c.expr(s.Func)
	case *ast.ReturnStmt:
		c.exprs(s.Exprs...)
	case *ast.BreakStmt:
	default:
		c.report(s.Line(), "Lua 5.1 has no such statement")
	}
}

// local checks a declaration. A function may call itself; other variables are not declared in their own values.
func (c *luaChecker) local(s *ast.LocalAssignStmt) {
	if len(s.Exprs) == 1 {
		if _, ok := s.Exprs[0].(*ast.FunctionExpr); ok {
			c.declare(s.Line(), s.Names...)
			c.exprs(s.Exprs...)
			return
		}
	}
	c.exprs(s.Exprs...)
	c.declare(s.Line(), s.Names...)
}

func (c *luaChecker) exprs(list ...ast.Expr) {
	for _, e := range list {
		c.expr(e)
	}
}

func (c *luaChecker) expr(e ast.Expr) {
	switch e := e.(type) {
	case nil, ast.ConstExpr, *ast.Comma3Expr:
	case *ast.IdentExpr:
		c.read(e.Line(), e.Value)
	case *ast.AttrGetExpr:
		c.exprs(e.Object, e.Key)
	case *ast.TableExpr:
		for _, f := range e.Fields {
			c.exprs(f.Key, f.Value)
		}
	case *ast.FuncCallExpr:
		c.exprs(e.Func, e.Receiver)
		c.exprs(e.Args...)
	case *ast.LogicalOpExpr:
		c.exprs(e.Lhs, e.Rhs)
	case *ast.RelationalOpExpr:
		c.exprs(e.Lhs, e.Rhs)
	case *ast.StringConcatOpExpr:
		c.exprs(e.Lhs, e.Rhs)
	case *ast.ArithmeticOpExpr:
		c.exprs(e.Lhs, e.Rhs)
	case *ast.UnaryMinusOpExpr:
		c.expr(e.Expr)
	case *ast.UnaryNotOpExpr:
		c.expr(e.Expr)
	case *ast.UnaryLenOpExpr:
		c.expr(e.Expr)
	case *ast.FunctionExpr:
		c.block(e.Stmts, luaVar{e.Line(), e.ParList.Names})
	default:
		c.report(e.Line(), fmt.Sprintf("unknown expression %T", e))
	}
}
