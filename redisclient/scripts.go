package redisclient

import (
	"sync"

	"github.com/warmgate/warmgate/redisclient/lua"
)

// script is one operation in Redis, in the file of its name in the folder lua.
type script struct {
	name string
	sha  string // what sum returns, once it was called
	once sync.Once
}

// The scripts. A changed script has another SHA-1, so versions of the plugin beside each other each use their own. A
// change of the data formats needs another [KeyPrefix].
var (
	scriptCandidates = newScript("candidates")
	scriptReserve    = newScript("reserve")     // for plans without prefix blocks
	scriptPrompt     = newScript("prompt")      // for plans with prefix blocks
	scriptWait       = newScript("wait")        // for plans that may wait
	scriptWaitPrompt = newScript("wait_prompt") // likewise, with prefix blocks
	scriptPoll       = newScript("poll")
	scriptRecord     = newScript("record")
	scriptForget     = newScript("forget")
	scriptRelease    = newScript("release")
	scriptCancel     = newScript("cancel")
	scriptAmend      = newScript("amend")
	scriptAssert     = newScript("assert")
	scriptHeartbeat  = newScript("heartbeat")
	scriptLoads      = newScript("loads")
	scriptLevels     = newScript("levels")
	scriptFreeRows   = newScript("free_rows")
	scriptSpend      = newScript("spend") // for plans with budgets
	scriptRefund     = newScript("refund")
	scriptSettle     = newScript("settle")
	scriptRestrict   = newScript("restrict")
	// The same for tenants: see lua/tenant.lua.
	scriptSpendTenant    = newScript("spend_tenant")
	scriptRefundTenant   = newScript("refund_tenant")
	scriptSettleTenant   = newScript("settle_tenant")
	scriptRestrictTenant = newScript("restrict_tenant")

	scriptSchedule  = newScript("schedule")
	scriptComplete  = newScript("complete")
	scriptRenew     = newScript("renew")
	scriptOverrides = newScript("overrides")
)

// scripts are all of them.
var scripts []*script

// scriptsInSequence are those whose effect on one lease, or on the record of its prompt, depends on their order.
var scriptsInSequence = []*script{scriptAmend, scriptForget, scriptRecord, scriptRelease}

// newScript is called when the VM starts; a copy at each place would be 13 KB.
//
//go:noinline
func newScript(name string) *script {
	s := &script{name: name}
	scripts = append(scripts, s)
	return s
}

// sum returns the SHA-1 of the script's text, by which EVALSHA names it. The script is joined only here and to be
// loaded: most VMs send few scripts, and those without Redis none.
func (s *script) sum() string {
	s.once.Do(func() { s.sha = lua.Sum(scriptText(s.name)) })
	return s.sha
}

// scriptText returns the text of the script with the name. It is not kept, because it is needed again only if Redis
// does not know the script. A test replaces it by one with another clock.
var scriptText = lua.Script

// ScriptName returns the name of the script with the SHA-1 in hex, as a server's SLOWLOG shows it, "" if there is none.
func ScriptName(sum string) string {
	for _, s := range scripts {
		if s.sum() == sum {
			return s.name
		}
	}
	return ""
}

// ScriptNames returns the names of all scripts, which are those of their files in the folder lua.
func ScriptNames() []string {
	names := make([]string, len(scripts))
	for i, s := range scripts {
		names[i] = s.name
	}
	return names
}

// command appends the beginning of an EVALSHA of the script to dst. The caller appends so many keys, then so many
// arguments.
func (s *script) command(dst []byte, keys, args int) []byte {
	dst = appendHeader(dst, 3+keys+args)
	dst = appendArg(dst, "EVALSHA")
	dst = appendArg(dst, s.sum())
	return appendInt(dst, int64(keys))
}

// load returns the command that loads the script.
func (s *script) load() []byte {
	return AppendCommand(nil, "SCRIPT", "LOAD", scriptText(s.name))
}
