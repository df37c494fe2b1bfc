package core

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
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

// Clients that are refused at the same time do not come back at the same time.
func TestRetryAfter(t *testing.T) {
	d := startFake(t, 1, 1, requestsConfig)
	s := NewStream(d.workers[0].current, 7, &fakeStream{process: d.fakeProcess}).first
	after := func(configured, expected time.Duration) (least, most time.Duration) {
		s.Config = &config.Config{Overload: config.Overload{RetryAfter: configured}}
		least = time.Duration(1<<63 - 1)
		for range 1000 {
			got := s.retryAfter(expected)
			least, most = min(least, got), max(most, got)
		}
		return least, most
	}
	for _, c := range []struct{ configured, expected, least, most time.Duration }{
		{time.Second, 0, time.Second, time.Second},
		{0, 10 * time.Second, 0, 0},
		{time.Second, 10 * time.Second, 9 * time.Second, 11 * time.Second},
		{time.Minute, 10 * time.Second, 9 * time.Second, 11 * time.Second},
		{time.Second, 1e18, 54 * time.Minute, 66 * time.Minute},
	} {
		least, most := after(c.configured, c.expected)
		if slack := (c.most - c.least) / 50; least < c.least || most > c.most || least > c.least+slack ||
			most < c.most-slack {
			t.Errorf("%+v: from %v to %v", c, least, most)
		}
	}
}

// Every refusal is an error as the APIs of model servers have it.
func TestBodiesOfRefusals(t *testing.T) {
	messages := map[string]bool{}
	for _, why := range []lb.Reason{
		lb.ReasonAtCapacity, lb.ReasonMaxQueueSizeExceeded, lb.ReasonDeadlineUnreachable, lb.ReasonQueueTimeout,
		lb.ReasonRetryBudgetExceeded,
	} {
		var body struct {
			Error struct{ Message, Type, Code string }
		}
		if err := json.Unmarshal([]byte(overloadBody(why)), &body); err != nil {
			t.Fatal(err)
		}
		e := body.Error
		if e.Type != "overloaded_error" || e.Code != why.String() || messages[e.Message] || e.Message == "" {
			t.Errorf("%s: %+v", why, e)
		}
		messages[e.Message] = true
	}
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
