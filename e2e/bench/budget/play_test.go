package budget

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/redisserver"
)

// A small backlog is done by every kind of contender: each task once, nothing left over. Warmgate never sends more at
// once than a model takes, and nothing beyond its rate.
func TestPlay(t *testing.T) {
	s := settings{ttl: 3 * time.Second}
	for _, c := range contenders {
		if c.name == apiName || c.name == crowdName {
			continue // they differ from others in numbers only, and each starts an Envoy
		}
		t.Run(c.name, func(t *testing.T) {
			g := newGame(fleet(), tasksOf(7, 260))
			defer g.close()
			ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
			defer cancel()
			err := c.play(ctx, s, g)
			if errors.Is(err, redisserver.ErrUnavailable) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			r := g.judge()
			t.Log(r)
			if r.audit() != 0 || r.makespan < r.perfect {
				t.Errorf("audit %d, %v in place of %v at best", r.audit(), r.makespan, r.perfect)
			}
			if c.own && (r.tpmExcess > targetExcess || r.refused["slots"] > 0) {
				t.Errorf("models have refused %v, %v of what their rates allow was sent", r.refused, r.tpmExcess)
			}
			if dead := r.deaths.workers; (dead > 0) != (c.name == killedName) {
				t.Errorf("%d workers were killed", dead)
			}
		})
	}
}
