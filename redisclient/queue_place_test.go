package redisclient_test

import (
	"slices"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/storetest"
)

// A request that is planned anew keeps its place, however long its command takes to Redis.
func TestPlaceBehindSlowCommands(t *testing.T) {
	b := openClocked(t, redisserver.StartT(t, redisserver.Options{}), false, nil)(t).(*clocked)
	first, second, now := b.NewOwner(), b.NewOwner(), time.Hour
	var granted []lb.LeaseID
	reserve := func(s lb.Store, now time.Duration, id lb.LeaseID, p lb.Plan) {
		s.Reserve(now, id, &p, func(_ lb.Grant, err error) {
			if err == nil {
				granted = append(granted, id)
			} else if err != lb.ErrReleased {
				t.Errorf("request %d: %v", id, err)
			}
		})
	}
	plan := *storetest.Even(storetest.Addrs(1))
	plan.Candidates[0].Cap = 1
	plan.Wait = lb.Wait{Max: time.Minute, Class: lb.Class{ID: 1, Weight: 1}, Length: 9}
	reserve(first, now, 1, plan)

	early := plan
	early.Wait.Place = &lb.Place{}
	reserve(first, now, 2, early)
	b.Pass(20 * time.Millisecond)
	reserve(second, now+20*time.Millisecond, 3, plan)

	// By the clock of its owner it has waited for 30 ms; Redis hears of that a second later.
	b.Pass(time.Second)
	now += 30 * time.Millisecond
	first.Release(now, 2)
	early.Wait.Since = time.Hour
	reserve(first, now, 4, early)
	for _, id := range []lb.LeaseID{1, 4} {
		first.Release(now, id)
		for range 3 {
			now += lb.PollPeriod
			first.Poll(now)
			second.Poll(now)
		}
	}
	if want := []lb.LeaseID{1, 4, 3}; !slices.Equal(granted, want) {
		t.Errorf("granted %v, want %v", granted, want)
	}
}
