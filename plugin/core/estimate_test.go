package core

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/lb/answer"
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/plugin/clusters"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/learned"
)

// A configured estimate of no tokens does not give requests zero load, and no answer counts as longer than a request
// may be.
func TestEstimateBeyondTheGuess(t *testing.T) {
	c := &config.Config{BytesPerToken: 4, MaxRequestTokens: 5000}
	w := work{info: prompt.Info{MaxTokens: 1000}}
	w.model.Guess = clusters.GuessOf(c)
	w.typical = learned.Models{}.Typical(w.model, w.info.MaxTokens)
	if p, o := w.estimate(c, 4000); p == 0 || o == 0 {
		t.Errorf("%d tokens of a prompt that cannot be read, %d of an answer; want some of each", p, o)
	}
	m := learned.Models{}
	m.Observe(time.Hour, w.model, 0, 0, answer.Usage{Prompt: 1_000_000_000, Output: 1_000_000_000})
	if l := m.Typical(w.model, 0); l.Prompt > 5000 || l.Output > 5000 {
		t.Errorf("after one answer: %g tokens a prompt, %g an answer, too many for a request", l.Prompt, l.Output)
	}
}

// Requests that end without usage do not use up the sample, unless no request has usage.
func TestSampleCountsUsage(t *testing.T) {
	d := startFake(t, 1, 1, tokensConfig)
	read := 0
	send := func(status int, answer string) {
		c := d.client(0, streamtest.Request{Frames: []string{chatOf(`"model-a"`, 1, 4000)}})
		c.Head(status)
		c.Data(answer)
		if c.core.first.serving.readsUsage() {
			read++
		}
		c.Finish()
	}
	for range learned.SampleFirst {
		send(400, `{"error":"no"}`)
		send(200, `{"choices":[]}`)
	}
	read = 0
	const usage = `{"usage":{"prompt_tokens":120,"completion_tokens":100}}`
	for range learned.SampleFirst {
		send(200, usage)
	}
	if read != learned.SampleFirst {
		t.Errorf("%d of the first %d answers with usage were read", read, learned.SampleFirst)
	}
	if got := d.outputs(); got < 99 || got > 101 {
		t.Errorf("answers are estimated to have %g tokens, want 100", got)
	}
}
