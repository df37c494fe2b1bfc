package redisclient

import (
	_ "embed"
	"strings"
)

//go:embed lua/shared.lua
var luaShared string

//go:embed lua/open.lua
var luaOpen string

//go:embed lua/reserve.lua
var luaReserve string

//go:embed lua/prefix.lua
var luaPrefix string

//go:embed lua/note.lua
var luaNote string

//go:embed lua/forget.lua
var luaForget string

//go:embed lua/release.lua
var luaRelease string

//go:embed lua/amend.lua
var luaAmend string

//go:embed lua/assert.lua
var luaAssert string

//go:embed lua/beat.lua
var luaBeat string

//go:embed lua/loads.lua
var luaLoads string

//go:embed lua/tidy.lua
var luaTidy string

// luaSums has the SHA-1 of each script, as lines of sum and name, because crypto/sha1 would make a module 0.4 MB
// larger. After a change of a script, `go test ./redisclient -run TestSums -update` writes it anew.
//
//go:embed lua/sha1sums
var luaSums string

// script is one operation in Redis.
type script struct {
	name string
	text string
	sha  string // by which Redis knows the text
}

func newScript(name, text string) *script {
	sums, _, _ := strings.Cut(luaSums, " "+name+"\n")
	return &script{name: name, text: text, sha: sums[strings.LastIndexByte(sums, '\n')+1:]}
}

// The scripts. A change of any of them has another SHA, so that different versions of the plugin do not disturb each
// other's; a change of what they store needs another [KeyPrefix].
var (
	scriptOpen    = newScript("open", luaShared+luaOpen)
	scriptReserve = newScript("reserve", luaReserve)          // of a plan without blocks
	scriptPrompt  = newScript("prompt", luaPrefix+luaReserve) // of one with them
	scriptNote    = newScript("note", luaPrefix+luaNote)
	scriptForget  = newScript("forget", luaPrefix+luaForget)
	scriptRelease = newScript("release", luaRelease)
	scriptAmend   = newScript("amend", luaShared+luaAmend)
	scriptAssert  = newScript("assert", luaShared+luaAssert)
	scriptBeat    = newScript("beat", luaShared+luaBeat)
	scriptLoads   = newScript("loads", luaLoads)
	scriptTidy    = newScript("tidy", luaShared+luaTidy)
)

// ScriptName returns which script has the sum, "" if none: a server's SLOWLOG names sums.
func ScriptName(sum string) string {
	before, _, found := strings.Cut(luaSums, sum+" ")
	if !found || len(sum) != 40 {
		return ""
	}
	name, _, _ := strings.Cut(luaSums[len(before)+len(sum)+1:], "\n")
	return name
}

// command returns an EVALSHA of the script with room for n keys and arguments, which the caller appends.
func (s *script) command(dst []byte, keys, args int) []byte {
	dst = appendHeader(dst, 3+keys+args)
	dst = appendArg(dst, "EVALSHA")
	dst = appendArg(dst, s.sha)
	return appendInt(dst, int64(keys))
}

// load returns the command that makes Redis know the script.
func (s *script) load() []byte {
	return AppendCommand(nil, "SCRIPT", "LOAD", s.text)
}
