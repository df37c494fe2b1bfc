package gpu

import (
	"context"
	"fmt"
	"time"

	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/bench/scripted"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/traffic"
)

// work is a load.
type work struct {
	name  string
	about string
	users int           // at once, a closed loop; 0: sessions begin at random
	chats traffic.Chats // without seeds; Rate is set by what the engines can do
	least int           // sessions of an open loop, which takes about span
	most  int
}

const (
	span      = 15 * time.Second
	crowdSize = 40 // users of a closed loop
	capSeed   = 77 // of the sessions by which the rate of an open loop is found
	warmSeed  = 900
)

func workName(w work) string { return w.name }

// works returns all, in the order of the table.
func works() []work {
	talks := traffic.Chats{
		Sessions: 48, Turns: 4, Systems: []int{2903, 3517, 4211, 4979}, Rate: 1, Pause: 700 * time.Millisecond,
		Question: traffic.Spread{Median: 900, Sigma: 0.6, Least: 60, Most: 4000},
		Answer:   traffic.Spread{Median: 70, Sigma: 0.5, Least: 8, Most: 400},
	}
	hasty := talks
	hasty.Pause = 0
	unequal := traffic.Chats{
		Sessions: 96, Turns: 1, Systems: []int{200, 230, 260, 290}, Rate: 1,
		Question: traffic.Spread{Median: 2000, Sigma: 0.8, Least: 60, Most: 4000},
		Answer:   traffic.Spread{Median: 60, Sigma: 1.2, Least: 8, Most: 800},
	}
	return []work{
		{
			name: "open", chats: talks, least: 24, most: 60,
			about: "conversations of 4 turns behind 4 system prompts of 2,903 to 4,979 tokens, questions of 900 and " +
				"answers of 70 (medians), 0.7 s from answer to question; they begin at random, for about 15 s",
		},
		{name: "closed", chats: hasty, users: crowdSize, about: "48 of these without a pause, 40 at once"},
		{
			name: "unequal", chats: unequal, least: 60, most: 300,
			about: "single requests with prompts of 2,000 and answers of 60 tokens (medians), most of them far from " +
				"that; they begin at random, for about 15 s",
		},
	}
}

// scripts returns the sessions of a run. Each run has words of its own, so that nothing of another is cached.
func (w *work) scripts(seed, words uint64) []traffic.Script {
	c := w.chats
	c.Seed, c.Words = seed, words
	return c.Scripts()
}

// pace finds the rate of an open loop: a share of what round_robin gets done when as many users as in a closed loop
// send the sessions without a pause.
func (rep *report) pace(ctx context.Context, stage *compare.Stage, w *work) error {
	if n := rep.settings.sessions; n > 0 {
		w.chats.Sessions, w.least, w.most = n, n, n
	}
	if w.users > 0 {
		return nil
	}
	hasty := *w
	hasty.users, hasty.chats.Pause = crowdSize, 0
	r, err := rep.run(ctx, stage, compare.RoundRobin, &hasty, hasty.scripts(capSeed, rep.words()))
	if err != nil {
		return fmt.Errorf("%s: capacity: %w", w.name, err)
	}
	rate := float64(w.chats.Sessions) / r.Summary.Elapsed.Seconds()
	w.chats.Rate = rep.settings.load * rate
	w.chats.Sessions = min(w.most, max(w.least, int(w.chats.Rate*span.Seconds())))
	rep.Note("%s: round_robin serves %.2f sessions/s of a closed loop, so %d begin at %.2f a second", w.name, rate,
		w.chats.Sessions, w.chats.Rate)
	return nil
}

// words returns the seed of the words of the next run.
func (rep *report) words() uint64 {
	rep.texts++
	return rep.texts
}

// warm has the policy serve a few sessions, and returns when it chooses.
func (rep *report) warm(ctx context.Context, stage *compare.Stage, p compare.Policy) error {
	chats := traffic.Chats{
		Seed: warmSeed, Sessions: 8, Turns: 1, Systems: []int{100}, Rate: 1,
		Question: traffic.Spread{Median: 100, Sigma: 0.5, Least: 50, Most: 200},
		Answer:   traffic.Spread{Median: 4, Most: 4},
	}
	deadline := time.Now().Add(2 * time.Minute)
	for {
		chats.Words = rep.words()
		player := scripted.Player{Client: stage.Client()}
		samples := player.Play(ctx, chats.Scripts(), chats.Sessions)
		err := answered(samples)
		if err == nil {
			err = p.Steered(samples)
		}
		switch {
		case err == nil || ctx.Err() != nil:
			return ctx.Err()
		case time.Now().After(deadline):
			return fmt.Errorf("warm-up: %w", err)
		}
	}
}

// answered returns an error if a request failed.
func answered(samples []loadgen.Sample) error {
	for i := range samples {
		if s := &samples[i]; !s.OK() || s.Usage.Prompt == 0 {
			return fmt.Errorf("a request of %d failed: status %d %s %s, usage %+v", len(samples), s.Status, s.Error,
				s.Detail, s.Usage)
		}
	}
	return nil
}
