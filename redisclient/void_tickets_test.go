package redisclient_test

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
	"github.com/warmgate/warmgate/lb/storetest"
	"github.com/warmgate/warmgate/redisclient"
)

// Thousands of tickets of an owner whose leases were lost are in front of those of another. No command deals with many
// of them at once, and all who still wait are served in the end.
func TestVoidTickets(t *testing.T) {
	const live = 40
	void := 3000
	if testing.Short() {
		void = 800
	}
	for _, version := range redisserver.Versions() {
		server := redisserver.StartT(t, redisserver.Options{Version: version})
		for name, plan := range map[string]*lb.Plan{
			"caps":    storetest.Even(storetest.Addrs(8)),
			"budgets": storetest.Budgeted(storetest.Addrs(8), budget.Limits{Weight: 1, Tokens: 1e9}, 10),
		} {
			t.Run(version+" "+name, func(t *testing.T) {
				m := meterOf(t, server)
				m.value("FLUSHALL")
				for i := range plan.Candidates {
					plan.Candidates[i].Cap = 1
				}
				plan.Wait = lb.Wait{Max: 1000 * time.Hour, Length: 2 * void, Class: lb.Class{ID: 1, Weight: 1}}
				s := m.store(9)
				var held []lb.LeaseID
				reserve := func(of *redisclient.Store, id lb.LeaseID) {
					of.Reserve(0, id, plan, func(_ lb.Grant, err error) {
						if err != nil {
							t.Error(err)
						}
						held = append(held, id)
					})
				}
				for id := range lb.LeaseID(8) {
					reserve(s, id)
				}
				dead := newStore(m.syncTransport, 1, time.Hour)
				for id := range lb.LeaseID(void) {
					reserve(dead, id)
				}
				for id := range lb.LeaseID(live) {
					reserve(s, 8+id)
				}
				if len(held) != 8 {
					t.Fatalf("%d were granted before they should wait", len(held))
				}
				m.value("DEL", redisclient.KeysOf("llm").Leases+"1")
				released := 0
				for polls := 0; polls < void && len(held) < 8+live; polls++ {
					for ; released < len(held); released++ {
						s.Release(0, held[released])
					}
					s.PollSoon()
					s.Poll(0)
				}
				if len(held) != 8+live {
					t.Errorf("%d of %d who wait were served", len(held)-8, live)
				}
				m.check(t)
			})
		}
	}
}
