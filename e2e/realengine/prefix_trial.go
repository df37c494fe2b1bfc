package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/lab"
	"github.com/warmgate/warmgate/e2e/loadgen"
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
	answer   loadgen.Sample  // to the last turn
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
func (t *trial) prefixCache(ctx context.Context) {
	lab.Check(t.gateway.PushPlugin(ctx, byCounts))
	lab.Check(t.gateway.PushCluster(ctx, harness.RoundRobin))
	_, without := t.converse(ctx, apart)
	lab.Check(t.gateway.PushCluster(ctx, harness.Warmgate))
	lab.Check(t.gateway.PushPlugin(ctx, byPrefix))
	before := t.promptCounts(ctx)
	reusable, with := t.converse(ctx, apart)
	by := t.promptCounts(ctx)
	by.prompt, by.cached, by.expected = by.prompt-before.prompt, by.cached-before.cached, by.expected-before.expected
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
}

// behindOne are conversations that all begin with a system prompt of 16 KB: a word is four bytes, and one token.
var behindOne = dialogue{talks: 12, turns: 5, system: 4096, first: 300, more: 300}

// leastOfSticky is how much of what is cached where each conversation sticks to one server has to be cached.
const leastOfSticky = .97

// sharedPrompt checks by the engines' counters that conversations find their prompts cached when all of them begin
// alike.
func (t *trial) sharedPrompt(ctx context.Context) {
	stuck := behindOne
	stuck.sticky = true
	_, sticky := t.converse(ctx, stuck)
	lab.Check(t.gateway.PushCluster(ctx, harness.Warmgate))
	lab.Check(t.gateway.PushPlugin(ctx, byPrefix))
	_, with := t.converse(ctx, behindOne)
	best, share := sticky.cached/sticky.prompts(), with.cached/with.prompts()
	t.found(share >= leastOfSticky*best, fmt.Sprintf("prefix_cache, %d conversations behind 16 KB: cached share",
		behindOne.talks),
		fmt.Sprintf("≥ %.3f: %g of that of one server each", leastOfSticky*best, leastOfSticky), "%.3f", share)
}

// promptCounts reads the plugin's counts.
func (t *trial) promptCounts(ctx context.Context) promptCounts {
	sum := func(stat string) float64 { return lab.Must(t.gateway.Sum(ctx, stat)) }
	return promptCounts{sum(statPrompt), sum(statCached), sum(statExpect)}
}

// converse holds all conversations, a turn of each at once, and returns which share of their prompts had been sent or
// answered before, and what the engines have counted.
func (t *trial) converse(ctx context.Context, d dialogue) (reusable float64, sum counters) {
	before := t.intake(ctx)
	p := t.prober()
	defer p.client.Close()
	list := t.begin(p, d)
	defer func() {
		for _, k := range list {
			k.server.Close()
		}
	}()
	var again, all float64
	for turn := range d.turns {
		words := d.more
		if turn == 0 {
			words = d.first
		}
		for i := range list {
			list[i].add("user", p.words(words))
		}
		lab.All(len(list), func(i int) { list[i].send(ctx) })
		for i := range list {
			k := &list[i]
			again += float64(k.sent)
			all += float64(k.answer.Usage.Prompt)
			k.sent = k.answer.Usage.Prompt + k.answer.Usage.Completion
			k.add("assistant", k.answer.Text)
		}
	}
	for _, c := range t.since(ctx, before) {
		sum.computed, sum.cached = sum.computed+c.computed, sum.cached+c.cached
	}
	return again / all, sum
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

func (k *talk) add(role, text string) {
	k.messages = append(k.messages, loadgen.Message{Role: role, Content: text})
}

// send sends the conversation so far and keeps the server's answer.
func (k *talk) send(ctx context.Context) {
	body := lab.Must(loadgen.ConversationBody(model, k.messages, talkAnswer, true))
	s := k.server.Do(ctx, &loadgen.Request{Body: body, Stream: true, MaxTokens: talkAnswer, KeepText: true}, time.Now())
	lab.FailIf(!s.OK() || s.Usage.Prompt == 0, "turn of a conversation: status %d %s %s, usage %+v", s.Status, s.Error,
		s.Detail, s.Usage)
	k.answer = s
}
