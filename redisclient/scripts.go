package redisclient

import (
	_ "embed"
	"strings"
)

// luaPacked contains the texts of lua/*.lua without comments and indentation, which would be a third of what each VM
// keeps and Redis is sent. In front of each is a line of "--" and its name. After a change of a script, `go test
// ./redisclient -run TestPacked -update` updates it.
//
//go:embed lua/packed
var luaPacked string

// lua returns the packed text of a file.
func lua(name string) string {
	_, text, _ := strings.Cut(luaPacked, "--"+name+"\n")
	text, _, _ = strings.Cut(text, "--")
	return text
}

// The texts of the scripts and of their parts.
var (
	luaShared     = lua("shared")
	luaCandidates = lua("candidates")
	luaBegin      = lua("begin")
	luaReserve    = luaBegin + lua("reserve")
	luaPrefix     = lua("prefix")
	luaRecord     = lua("record")
	luaForget     = lua("forget")
	luaRelease    = lua("release")
	luaCancel     = lua("cancel")
	luaAmend      = lua("amend")
	luaAssert     = lua("assert")
	luaHeartbeat  = lua("heartbeat")
	luaLoads      = lua("loads")
	luaLevels     = lua("levels")
	luaFreeRows   = lua("free_rows")
	luaEnqueue    = lua("enqueue")
	luaPoll       = lua("poll")
	luaBudget     = lua("budget")
	luaQueue      = lua("queue") + lua("queue_turn") + strings.ReplaceAll(lua("queue_grant"), "open_turns(",
		"(function()\n"+luaBudget+lua("turns")+"end)(")
	luaSpend    = lua("spend")
	luaRefund   = lua("refund")
	luaSettle   = lua("settle")
	luaRestrict = lua("restrict")
	luaTenant   = luaBudget + lua("tenant")
	luaTasks    = luaBudget + luaTaskKeys + lua("tasks") + lua("ending")
	luaSweep    = luaBudget + lua("tasks") + lua("sweep")
	luaSchedule = luaBudget + luaScheduleKeys + lua("tasks") + lua("ending") + lua("schedule")
	luaComplete = lua("complete")
	luaRenew    = lua("renew")
)

// What the texts of tasks.lua and ending.lua need; the script schedule also needs all of the table, and a list.
const (
	luaTaskKeys = "local tablekey, head = KEYS[1], redis.call('GETRANGE', KEYS[1], 0, 15)\n" + luaEpoch

	luaScheduleKeys = "local tablekey, read = KEYS[1], redis.call('MGET', KEYS[1], KEYS[2])\n" +
		"local t, v = read[1] or '', read[2]\nlocal head = string.sub(t, 1, 16)\n" + luaEpoch

	luaEpoch = "local epoch = string.sub(head, 1, 8)\n"
)

// luaSums contains the SHA-1 of each script, as lines of sum and name, because crypto/sha1 would make an artifact 0.4
// MB larger. After a change of a script, `go test ./redisclient -run TestSums -update` updates it, after luaPacked.
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
	scriptHeartbeat = newScript("heartbeat", luaShared+withQueue(withTasks(luaHeartbeat)))
	scriptLoads     = newScript("loads", luaLoads)
	scriptLevels    = newScript("levels", luaBudget+luaLevels)
	scriptFreeRows  = newScript("free_rows", luaShared+luaFreeRows)
	scriptSpend     = newScript("spend", luaBudget+withQueue(luaBegin+luaSpend)) // for plans with budgets
	scriptRefund    = newScript("refund", luaBudget+luaFunc("release", withQueue(luaRelease))+luaRefund)
	scriptSettle    = newScript("settle", luaBudget+luaSettle)
	scriptRestrict  = newScript("restrict", luaBudget+luaRestrict)
	// The same for tenants: see lua/tenant.lua.
	scriptSpendTenant  = newScript("spend_tenant", luaShared+luaTenant+lua("spend_tenant"))
	scriptRefundTenant = newScript("refund_tenant",
		luaTenant+luaFunc("release", withQueue(luaRelease))+lua("refund_tenant"))
	scriptSettleTenant   = newScript("settle_tenant", luaTenant+luaSettle)
	scriptRestrictTenant = newScript("restrict_tenant", luaTenant+luaRestrict)

	scriptSchedule = newScript("schedule", withQueue(luaSchedule))
	scriptComplete = newScript("complete", withQueue(luaTasks+luaComplete))
	scriptRenew    = newScript("renew", withQueue(luaTasks+luaRenew))
)

// scriptsInSequence are those whose effect on one lease, or on the record of its prompt, depends on their order.
var scriptsInSequence = []*script{scriptAmend, scriptForget, scriptRecord, scriptRelease}

// luaFunc returns the text of a script as a function of its keys and arguments.
func luaFunc(name, text string) string {
	return "local function " + name + "(KEYS, ARGV)\n" + text + "end\n"
}

// withQueue puts the functions of the queue into a script where it calls them: a run that does not call them does not
// create them.
func withQueue(text string) string {
	text = strings.ReplaceAll(text, "enqueue(", "(function(KEYS, ARGV, t, v, plan)\n"+luaEnqueue+"end)(")
	return strings.ReplaceAll(text, "open_queue(", "(function(tablekey, data, caller)\n"+luaQueue+"end)(")
}

// withTasks does the same for tasks.
func withTasks(text string) string {
	return strings.ReplaceAll(text, "sweep_tasks(", "(function(tablekey, rowskey, epoch, keep)\n"+luaSweep+"end)(")
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
