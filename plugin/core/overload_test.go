package core

import (
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/e2e/streamtest"
)

func TestFullWhileReserving(t *testing.T) {
	server := redisserver.StartT(t, redisserver.Options{})
	d := startRedis(t, server, 2, 2, `"max_inflight":1`)
	first, second := d.client(0, streamtest.Request{}), d.client(1, streamtest.Request{})
	shed := d.client(0, streamtest.Request{Frames: []string{"a"}})
	if shed.result.Status != 429 || shed.Upstream() >= 0 || !strings.Contains(shed.result.Body, "at_capacity") {
		t.Errorf("%+v at endpoint %d", shed.result, shed.Upstream())
	}
	first.Finish()
	third := d.client(1, streamtest.Request{})
	third.Finish()
	second.Finish()
	if first.endpoint == second.endpoint || third.endpoint != first.endpoint {
		t.Errorf("endpoints %d, %d, %d", first.endpoint, second.endpoint, third.endpoint)
	}
	d.drained()
}
