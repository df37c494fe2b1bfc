package main

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/wait"
)

// The conversations of the trials of prefix_cache.
const (
	talkAnswer = 16
	// expectSlack is how far what the plugin expected to be cached may be from what was, as a share of all prompts.
	// Tokens are estimated from bytes, and engines cache whole blocks.
	expectSlack = .1
	// leastGain is what the cached share has to gain over round robin.
	leastGain = .05
)

// talk is a conversation under way.
type talk struct {
	messages []loadgen.Message
	sent     int             // tokens that were sent or answered so far
	server   *loadgen.Client // where its turns go
}

// dialogue is so many conversations of so many turns.
type dialogue struct {
	talks, turns int
	system       int  // words of a system prompt that all begin with, 0 for none
	first, more  int  // words of the first question, and of each further one
	sticky       bool // each goes to one server, past the gateway
}

// promptCounts is what the plugin has counted of prompts, in tokens.
type promptCounts struct{ prompt, cached, expected float64 }

// apart is an odd number of conversations, so that round robin does not bring each back to where it was.
var apart = dialogue{talks: 7, turns: 4, first: 400, more: 60}

// prefixCache checks by the engines' counters that conversations find their prompts cached, as much as the plugin
// expected.
func (t *trial) prefixCache(ctx context.Context) error {
	if err := t.gateway.PushPlugin(ctx, byCounts); err != nil {
		return err
	}
	if err := t.gateway.PushCluster(ctx, harness.RoundRobin); err != nil {
		return err
	}
	_, without, err := t.converse(ctx, apart)
	if err != nil {
		return err
	}
	if err := t.gateway.PushCluster(ctx, harness.Warmgate); err != nil {
		return err
	}
	if err := t.gateway.PushPlugin(ctx, byPrefix); err != nil {
		return err
	}
	return t.reused(ctx, without)
}

// reused checks the conversations with prefix_cache against those without.
func (t *trial) reused(ctx context.Context, without counters) error {
	reusable, with, by, err := t.converseCounted(ctx, apart)
	if err != nil {
		return err
	}
	share := with.cached / with.prompts()
	t.found(by.prompt == with.prompts(), "prefix_cache: prompt tokens, by the plugin", "as the engines count",
		"%.0f, %.0f", by.prompt, with.prompts())
	t.found(by.cached == with.cached, "… of them cached", "as the engines count", "%.0f, %.0f", by.cached,
		with.cached)
	t.found(math.Abs(by.expected-with.cached)/with.prompts() <= expectSlack, "… expected to be cached, share of all",
		fmt.Sprintf("within %g of what was", expectSlack), "%.3f, %.3f", by.expected/with.prompts(), share)
	t.found(share >= reusable-expectSlack, "… cached share by the engines' counters",
		fmt.Sprintf("≥ %.3f: all but %g of what was sent before", reusable-expectSlack, expectSlack), "%.3f", share)
	t.found(share >= without.cached/without.prompts()+leastGain, "… with round_robin",
		fmt.Sprintf("≥ %g less", leastGain),
		"%.3f", without.cached/without.prompts())
	return nil
}

// converseCounted is converse with what the plugin has counted in by.
func (t *trial) converseCounted(ctx context.Context, d dialogue) (reusable float64, sum counters, by promptCounts,
	err error,
) {
	before, err := t.promptCounts(ctx)
	if err != nil {
		return 0, sum, by, err
	}
	if reusable, sum, err = t.converse(ctx, d); err != nil {
		return 0, sum, by, err
	}
	after, err := t.promptCounts(ctx)
	by = promptCounts{after.prompt - before.prompt, after.cached - before.cached, after.expected - before.expected}
	return reusable, sum, by, err
}

// promptCounts reads the plugin's counts.
func (t *trial) promptCounts(ctx context.Context) (promptCounts, error) {
	var v promptCounts
	for stat, into := range map[string]*float64{statPrompt: &v.prompt, statCached: &v.cached, statExpect: &v.expected} {
		n, err := t.gateway.Sum(ctx, stat)
		if err != nil {
			return v, err
		}
		*into = n
	}
	return v, nil
}

// converse holds all conversations, a turn of each at once, and returns which share of their prompts had been sent or
// answered before, and what the engines have counted.
func (t *trial) converse(ctx context.Context, d dialogue) (reusable float64, sum counters, err error) {
	before, err := t.intake(ctx)
	if err != nil {
		return 0, sum, err
	}
	p := t.prober()
	defer p.client.Close()
	list := t.begin(p, d)
	defer func() {
		for _, k := range list {
			k.server.Close()
		}
	}()
	if reusable, err = p.allTurns(ctx, list, d); err != nil {
		return 0, sum, err
	}
	taken, err := t.since(ctx, before)
	for _, c := range taken {
		sum.computed, sum.cached = sum.computed+c.computed, sum.cached+c.cached
	}
	return reusable, sum, err
}

// allTurns holds the conversations, and returns which share of their prompts had been sent or answered before.
func (p *prober) allTurns(ctx context.Context, list []talk, d dialogue) (reusable float64, _ error) {
	var again, all float64
	for turn := range d.turns {
		words := d.more
		if turn == 0 {
			words = d.first
		}
		samples, err := p.turn(ctx, list, words)
		if err != nil {
			return 0, err
		}
		for i, s := range samples {
			again += float64(list[i].sent)
			all += float64(s.Usage.Prompt)
			list[i].sent = s.Usage.Prompt + s.Usage.Completion
			list[i].add("assistant", s.Text)
		}
	}
	return again / all, nil
}

// begin returns the conversations before their first turn. Their clients have to be closed.
func (t *trial) begin(p *prober, d dialogue) []talk {
	list := make([]talk, d.talks)
	system := p.words(d.system)
	for i := range list {
		url := p.url
		if d.sticky {
			url = t.servers[i%len(t.servers)].url
		}
		list[i].server = loadgen.NewClient(loadgen.Options{URL: url + "/v1/chat/completions", Fresh: true})
		if d.system > 0 {
			list[i].add("system", system)
		}
	}
	return list
}

// turn has each conversation go on by a question of so many words, all at once.
func (p *prober) turn(ctx context.Context, list []talk, words int) ([]loadgen.Sample, error) {
	for i := range list {
		list[i].add("user", p.words(words))
	}
	samples := make([]loadgen.Sample, len(list))
	return samples, wait.All(len(list), func(i int) (err error) {
		samples[i], err = list[i].send(ctx)
		return err
	})
}

func (k *talk) add(role, text string) {
	k.messages = append(k.messages, loadgen.Message{Role: role, Content: text})
}

// send sends the conversation so far and returns the server's answer.
func (k *talk) send(ctx context.Context) (loadgen.Sample, error) {
	body, err := loadgen.ConversationBody(model, k.messages, talkAnswer, true)
	if err != nil {
		return loadgen.Sample{}, err
	}
	s := k.server.Do(ctx, &loadgen.Request{Body: body, Stream: true, MaxTokens: talkAnswer, KeepText: true}, time.Now())
	if !s.OK() || s.Usage.Prompt == 0 {
		err = fmt.Errorf("turn of a conversation: status %d %s %s, usage %+v", s.Status, s.Error, s.Detail, s.Usage)
	}
	return s, err
}

// words is text of n words that the models know as tokens.
func (p *prober) words(n int) string {
	const first, middle, last = "bdklmnrst", "aeiou", "bdklmnrstpgvfzhj"
	var b strings.Builder
	for range n {
		b.Write([]byte{
			' ', first[p.rand.IntN(len(first))], middle[p.rand.IntN(len(middle))],
			last[p.rand.IntN(len(last))],
		})
	}
	return b.String()
}
