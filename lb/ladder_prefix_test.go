package lb_test

import (
	"testing"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/storetest"
)

// Both stores are told where a prompt was served and where it is no more, so that either knows when it has to choose.
func TestLadderTellsBothOfPrompts(t *testing.T) {
	l, addrs := newLadder(t), storetest.Addrs(2)
	plan := storetest.WithPrompt(storetest.Even(addrs), 10, storetest.Blocks(1, 2))
	l.Note(l.now, plan, addrs[1])
	l.wantLog("note " + addrs[1])
	l.remote.down = true
	if o := l.reserve(1, plan); o.err != nil || plan.Candidates[o.grant.Index].Addr != addrs[1] || o.grant.Cached != len(plan.Prefix.Blocks) {
		t.Errorf("without the remote store: %+v, want all blocks at %s", o, addrs[1])
	}
	l.remote.log = nil
	l.Forget(l.now, plan, addrs[1], 0)
	l.wantLog("forget " + addrs[1] + " 0")
	one := *plan
	one.Candidates = plan.Candidates[1:]
	if o := l.reserve(lb.LeaseID(2), &one); o.err != nil || o.grant.Cached != 0 {
		t.Errorf("what was forgotten is known without the remote store: %+v", o)
	}
}
