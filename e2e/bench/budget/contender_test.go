package budget

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/quotasim"
	"github.com/warmgate/warmgate/e2e/redisserver"
)

func somePublished(now time.Time) *published {
	return newPublished([]quotasim.Config{
		{Name: "a", Slots: 1, TokensPerMinute: 6000}, {Name: "b", Slots: 2, TokensPerMinute: 6000},
	}, now)
}

// Each call adds its quantum to every deficit, and the next model in turn that has enough of everything takes the task.
func TestPublishedTurns(t *testing.T) {
	now := time.Unix(1000, 0)
	p := somePublished(now)
	for i, want := range []string{"a", "b", "b", ""} {
		got := p.schedule(now, 1800)
		if got.Model != want {
			t.Errorf("call %d: %+v, want %q", i, got, want)
		}
	}
	if !p.complete("1") || p.complete("1") || p.complete("9") {
		t.Error("a task ends once, if there is one")
	}
	if got := p.schedule(now, 1800); got.Model != "a" {
		t.Errorf("the slot is not given back: %+v", got)
	}
}

// The second iteration spreads waits over ticks, and advises more workers the less they wait.
func TestPublishedAdvice(t *testing.T) {
	now := time.Unix(1000, 0)
	p := somePublished(now)
	p.second = true
	if got := p.advice(now); got != 3 {
		t.Errorf("without a call %d workers are advised, want one for each slot", got)
	}
	waits := map[int]bool{}
	for range 40 {
		if at := p.schedule(now, 50_000); at.admitted() || at.Wait < 19_800 || at.Wait%100 != 0 {
			t.Fatalf("%+v", at)
		}
		waits[smoothed(1000)] = true
	}
	if len(waits) < 2 {
		t.Errorf("all wait for %v ms", waits)
	}
	p.models[1].slots = 20
	if got := p.advice(now); got != 4 {
		t.Errorf("%d workers are advised when all wait for long, want the least", got)
	}
	if got := p.advice(now.Add(2 * time.Minute)); got != 21 {
		t.Errorf("%d workers are advised when that is long ago", got)
	}
}

// A wait is the shortest of those models that need one, and the same for all who ask.
func TestPublishedWaits(t *testing.T) {
	now := time.Unix(1000, 0)
	p := somePublished(now)
	if got := p.schedule(now, 5000); got.Wait != defaultRetry {
		t.Errorf("without a deficit: %+v", got)
	}
	p.schedule(now, 5000)
	if got := p.schedule(now, 5000); got.Model != "a" {
		t.Fatalf("%+v", got)
	}
	p.models[1].tokens = 3000
	for range 2 {
		if got := p.schedule(now, 5000); got.Wait != 20_001 {
			t.Errorf("b refills 2000 tokens in 20 s, a 4000 in 40: %+v", got)
		}
	}
	p.models[1].tokens, p.models[1].inflight = 6000, 2
	if got := p.schedule(now, 5000); got.Wait != shortBackoff {
		t.Errorf("without a slot: %+v", got)
	}
	if got := p.schedule(now.Add(time.Hour), 5000); got.Wait != shortBackoff || p.models[0].tokens != 6000 {
		t.Errorf("buckets hold what a minute brings: %+v, %+v", got, p.models[0])
	}
}

// A small backlog is done by every kind of contender: each task once, nothing left over. Warmgate never sends more at
// once than a model takes, and nothing beyond its rate.
func TestPlay(t *testing.T) {
	for _, c := range contenders {
		if c.name == apiName || c.name == crowdName || c.name == keylessName {
			continue // they differ little from others, and each starts an Envoy
		}
		s := settings{ttl: 30 * time.Second} // longer than any pause
		if c.name == killedName {
			s.ttl = 3 * time.Second // tasks of killed workers have to expire
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
