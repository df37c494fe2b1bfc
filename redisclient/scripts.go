package redisclient

import (
	_ "embed"
	"strings"
)

//go:embed lua/shared.lua
var luaShared string

//go:embed lua/candidates.lua
var luaCandidates string

//go:embed lua/reserve.lua
var luaReserve string

//go:embed lua/prefix.lua
var luaPrefix string

//go:embed lua/record.lua
var luaRecord string

//go:embed lua/forget.lua
var luaForget string

//go:embed lua/release.lua
var luaRelease string

//go:embed lua/cancel.lua
var luaCancel string

//go:embed lua/amend.lua
var luaAmend string

//go:embed lua/assert.lua
var luaAssert string

//go:embed lua/heartbeat.lua
var luaHeartbeat string

//go:embed lua/loads.lua
var luaLoads string

//go:embed lua/free_rows.lua
var luaFreeRows string

//go:embed lua/queue.lua
var luaQueue string

//go:embed lua/enqueue.lua
var luaEnqueue string

//go:embed lua/poll.lua
var luaPoll string

// luaSums contains the SHA-1 of each script, as lines of sum and name, because crypto/sha1 would make an artifact 0.4
// MB larger. After a change of a script, `go test ./redisclient -run TestSums -update` updates it.
//
//go:embed lua/sha1sums
var luaSums string

// script is one operation in Redis.
type script struct {
	name string
	text string
	sha  string // SHA-1 of the text, by which EVALSHA names it
}

func newScript(name, text string) *script {
	sums, _, _ := strings.Cut(luaSums, " "+name+"\n")
	return &script{name: name, text: text, sha: sums[strings.LastIndexByte(sums, '\n')+1:]}
}

// The scripts. A changed script has another SHA-1, so versions of the plugin beside each other each use their own. A
// change of the data formats needs another [KeyPrefix].
var (
	scriptCandidates = newScript("candidates", luaShared+luaCandidates)
	scriptReserve    = newScript("reserve", luaReserve)                          // for plans without prefix blocks
	scriptPrompt     = newScript("prompt", luaPrefix+luaReserve)                 // for plans with prefix blocks
	scriptWait       = newScript("wait", withQueue(luaReserve))                  // for plans that may wait
	scriptWaitPrompt = newScript("wait_prompt", luaPrefix+withQueue(luaReserve)) // likewise, with prefix blocks
	scriptPoll       = newScript("poll", withQueue(luaPoll))
	scriptRecord     = newScript("record", luaPrefix+luaRecord)
	scriptForget     = newScript("forget", luaForget)
	scriptRelease    = newScript("release", withQueue(luaRelease))
	scriptCancel     = newScript("cancel", luaFunc("release", withQueue(luaRelease))+
		luaFunc("forget", luaForget)+luaCancel)
	scriptAmend     = newScript("amend", luaShared+withQueue(luaAmend))
	scriptAssert    = newScript("assert", luaShared+luaAssert)
	scriptHeartbeat = newScript("heartbeat", luaShared+withQueue(luaHeartbeat))
	scriptLoads     = newScript("loads", luaLoads)
	scriptFreeRows  = newScript("free_rows", luaShared+luaFreeRows)
)

// luaFunc returns the text of a script as a function of its keys and arguments.
func luaFunc(name, text string) string {
	return "local function " + name + "(KEYS, ARGV)\n" + text + "end\n"
}

// withQueue puts the functions of the queue into a script where it calls them: a run that does not call them does not
// create them.
func withQueue(text string) string {
	text = strings.ReplaceAll(text, "enqueue(", "(function(KEYS, ARGV, t, v, plan)\n"+luaEnqueue+"end)(")
	return strings.ReplaceAll(text, "open_queue(", "(function(tablekey, data)\n"+luaQueue+"end)(")
}

// ScriptName returns the name of the script with the SHA-1 in hex, as a server's SLOWLOG shows it, "" if there is none.
func ScriptName(sum string) string {
	before, _, found := strings.Cut(luaSums, sum+" ")
	if !found || len(sum) != 40 {
		return ""
	}
	name, _, _ := strings.Cut(luaSums[len(before)+len(sum)+1:], "\n")
	return name
}

// command appends the beginning of an EVALSHA of the script to dst. The caller appends so many keys, then so many
// arguments.
func (s *script) command(dst []byte, keys, args int) []byte {
	dst = appendHeader(dst, 3+keys+args)
	dst = appendArg(dst, "EVALSHA")
	dst = appendArg(dst, s.sha)
	return appendInt(dst, int64(keys))
}

// load returns the command that loads the script.
func (s *script) load() []byte {
	return AppendCommand(nil, "SCRIPT", "LOAD", s.text)
}
