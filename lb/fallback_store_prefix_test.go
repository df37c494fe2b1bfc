package lb_test

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/storetest"
)

func (f *fakeRemote) RecordPrompt(_ time.Duration, id lb.LeaseID, _ *lb.Plan, addr string) {
	f.record("note %s %s", name(id), addr)
}

func (f *fakeRemote) ForgetPrompt(_ time.Duration, id lb.LeaseID, _ *lb.Plan, addr string, n int) {
	f.record("forget %s %s %d", name(id), addr, n)
}

// Prompts are recorded and forgotten in the store that has granted the request, where its reservation has recorded
// them: each store knows the prompts of its own requests.
func TestFallbackForwardsPrompts(t *testing.T) {
	l, addrs := newFallback(t), storetest.Addrs(2)
	plan := storetest.WithPrompt(storetest.Even(addrs), 10, storetest.Blocks(1, 2))
	// cached returns the match of an endpoint in the embedded store, which records the prompt for it thereby.
	cached := func(id lb.LeaseID, i int) (n int) {
		one := *plan
		one.Candidates = plan.Candidates[i : i+1]
		l.gate.NewStore().Reserve(l.now, id, &one, func(g lb.Grant, err error) {
			if err != nil {
				t.Fatal(err)
			}
			n = g.Cached
		})
		return n
	}
	l.reserve(1, plan)
	l.remote.answer(1, lb.Grant{Index: 0}, nil)
	l.remote.log = nil
	l.ForgetPrompt(l.now, 1, plan, addrs[0], 3)
	l.RecordPrompt(l.now, 1, plan, addrs[1])
	l.wantLog("forget 1 "+addrs[0]+" 3", "note 1 "+addrs[1])
	for i, addr := range addrs {
		if n := cached(90, i); n != 0 {
			t.Errorf("the embedded store knows %d blocks at %s of a prompt that the remote store has placed", n, addr)
		}
		l.local.ForgetPrompt(l.now, 90, plan, addr, 0)
	}
	l.remote.down = true
	o := l.reserve(2, plan)
	if o.err != nil {
		t.Fatal(o.err)
	}
	l.remote.log = nil
	l.ForgetPrompt(l.now, 2, plan, addrs[o.grant.Index], 3)
	l.RecordPrompt(l.now, 2, plan, addrs[1-o.grant.Index])
	l.wantLog()
	for i, want := range map[int]int{o.grant.Index: 3, 1 - o.grant.Index: len(plan.Prefix.Blocks)} {
		if n := cached(91, i); n != want {
			t.Errorf("the embedded store knows %d blocks at %s, want %d", n, addrs[i], want)
		}
	}
	l.remote.down = false
	l.RecordPrompt(l.now, 2, plan, addrs[0]) // also when the remote store is back: it has no record of this prompt
	l.wantLog()
}
