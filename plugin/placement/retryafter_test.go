package placement

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/host"
)

// dice is a gateway of which only random bits are wanted.
type dice struct{ host.Gateway }

func (dice) Random() uint64 { return rand.Uint64() }

// Clients that are refused at the same time do not come back at the same time.
func TestRetryAfter(t *testing.T) {
	s := basis{Shared: &Shared{Env: &host.Env{GW: dice{}}}}
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
