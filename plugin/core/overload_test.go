package core

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/e2e/streamtest"
)

func TestFullWhileReserving(t *testing.T) {
	server := redisserver.StartT(t, redisserver.Options{})
	d := startRedis(t, server, 2, 2, `"max_inflight":1`)
	first, second := d.client(0, streamtest.Request{}), d.client(1, streamtest.Request{})
	shed := d.client(0, streamtest.Request{Frames: []string{"a"}})
	if shed.Result().Status != 429 || shed.Upstream() >= 0 || !strings.Contains(shed.Result().Body, "at_capacity") {
		t.Errorf("%+v at endpoint %d", shed.Result(), shed.Upstream())
	}
	first.Finish()
	third := d.client(1, streamtest.Request{})
	third.Finish()
	second.Finish()
	if first.Upstream() == second.Upstream() || third.Upstream() != first.Upstream() {
		t.Errorf("endpoints %d, %d, %d", first.Upstream(), second.Upstream(), third.Upstream())
	}
	d.drained()
}

// Who has waited in vain is told when those who wait are likely to be placed.
func TestRetryAfterWaitingInVain(t *testing.T) {
	d, busy := startQueue(t, 1, 1, queueConfig(""))
	waiting := []*fakeStream{d.client(0, streamtest.Request{})}
	for range 12 { // the pace: a request a second
		waiting = append(waiting, d.client(0, streamtest.Request{}))
		d.advance(time.Second)
		busy[0].conclude()
		busy[0], waiting = waiting[0], waiting[1:]
	}
	for range 3 {
		waiting = append(waiting, d.client(0, streamtest.Request{}))
	}
	d.wantWaiting(waiting...)
	d.advance(11 * time.Second)
	var told []int
	for _, c := range waiting {
		c.wantRefused(t, "queue_timeout")
		after, _ := strconv.Atoi(c.Result().Headers["retry-after"])
		told = append(told, after)
	}
	slices.Sort(told)
	for left, after := range told { // a second for each that was left, for one that may just have left, and for itself
		if after < left+1 || after > left+3 {
			t.Errorf("retry-after %v", told)
		}
	}
	busy[0].Finish()
	d.drained()
	d.wantNoneWaits()
}
