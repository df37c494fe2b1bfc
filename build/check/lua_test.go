package main

import (
	"strings"
	"testing"

	"github.com/warmgate/warmgate/redisclient/lua"
)

func TestLuaChecker(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"clean", "local a = KEYS[1]\nlocal function f(x) return x == 0 and f(a) end\nreturn f(1)", ""},
		{"a misspelt name", "local count = 1\nreturn cuont + count", "a.lua:2: cuont is not declared"},
		{"a global function", "return os.time()", "a.lua:1: os is not declared"},
		{"a global that is assigned", "x = 1", "a.lua:1: x is not declared"},
		{"a global function that is defined", "function f() end", "a.lua:1: f is not declared"},
		{"out of its block", "if KEYS[1] then\nlocal a = 1\nend\nreturn a", "a.lua:2: a is never read; " +
			"a.lua:4: a is not declared"},
		{"in its own value", "local a = a\nreturn a", "a.lua:1: a is not declared"},
		{
			"before its declaration", "local function f() return g() end\nlocal function g() return f() end",
			"a.lua:1: g is not declared; a.lua:2: g is never read",
		},
		{"never read", "local a, b = 1, 2\nb = a", "a.lua:1: b is never read"},
		{"a parameter", "local function f(x, _) return 1 end\nreturn f()", "a.lua:1: x is never read"},
		{"a loop's variable", "for i, v in pairs(KEYS) do redis.call('GET', v) end", "a.lua:1: i is never read"},
		{"hidden", "local a = 1\nfor a = 1, a do redis.call(a) end", "a.lua:2: a hides a.lua:1: a"},
		{"declared twice", "local a = 1\nlocal a = a\nreturn a", "a.lua:2: a hides a.lua:1: a"},
		{"repeat", "repeat local a = KEYS[1] until a", ""},
		{
			"nested", "local t = {f = function() return -#{not x} end, [1] = y .. z}\nreturn t",
			"a.lua:1: x is not declared; a.lua:1: y is not declared; a.lua:1: z is not declared",
		},
		{"a method", "local q = {}\nfunction q.f() return q end\nreturn q:g(x)", "a.lua:3: x is not declared"},
		{"no Lua", "local = 1", "a.lua:1: "},
		{"no end", "if KEYS then\n", "a.lua:1: "},
		{"another Lua", "goto a\n::a::", "a.lua:1: Lua 5.1 has no such statement; " +
			"a.lua:2: Lua 5.1 has no such statement"},
	} {
		var k luaChecker
		k.check(linesOf("a", c.text))
		got := strings.ReplaceAll(strings.Join(k.problems(), "; "), "redisclient/lua/", "")
		if got != c.want && !(strings.HasSuffix(c.want, ": ") && strings.HasPrefix(got, c.want)) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// What one script does not read another one may. A file may use the names of another for its own, but not in the block
// where both are.
func TestLuaCheckerOfFiles(t *testing.T) {
	part := linesOf("part", "local function f() return 1 end")
	var k luaChecker
	k.check(append(part, linesOf("a", "return 1")...))
	k.check(append(part, linesOf("b", "return f()")...))
	k.check(append(part, linesOf("c", "local function g(f) return f end\nreturn g(1)")...))
	if got := k.problems(); len(got) > 0 {
		t.Errorf("got %q", got)
	}
	k.check(append(part, linesOf("d", "local f = 1\nreturn f")...))
	const want = "redisclient/lua/d.lua:1: f hides redisclient/lua/part.lua:1: f"
	if got := strings.Join(k.problems(), "; "); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// linesOf returns the lines of a file.
func linesOf(file, text string) []lua.Line {
	var lines []lua.Line
	for i, line := range strings.Split(text, "\n") {
		lines = append(lines, lua.Line{Text: line, File: file, Number: i + 1})
	}
	return lines
}
