package core

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/lb/answer"
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/plugin/config"
)

// One model server of four that reports nonsense shifts the mean values by a bounded factor, however large or small its
// numbers are and however long it lasts.
func TestTypicalWithstandsAMinority(t *testing.T) {
	for name, wrong := range map[string]answer.Usage{
		"huge": {Prompt: 1_000_000_000, Output: 1_000_000_000},
		"tiny": {Prompt: 1, Output: 0},
	} {
		t.Run(name, func(t *testing.T) {
			m, key := models{}, keyOf("c", 7, 0)
			for i := range 2000 {
				u := answer.Usage{Prompt: 1000, Output: 200}
				if i%4 == 3 {
					u = wrong
				}
				m.observe(time.Hour, key, 4000, 0, u)
			}
			l := m.typical(key, 0)
			for what, ratio := range map[string]float64{
				"tokens of a prompt": l.prompt / 1000, "tokens of an answer": l.output / 200,
				"bytes per token": l.bytesPerToken / 4,
			} {
				if ratio < 0.25 || ratio > 4 {
					t.Errorf("%s are estimated as %g times what they are", what, ratio)
				}
			}
		})
	}
}

// Each class has estimates of its own, and a class without answers those of all.
func TestTypicalOfClasses(t *testing.T) {
	m, short, long, none := models{}, keyOf("c", 7, 0), keyOf("c", 7, 0), keyOf("c", 7, 0)
	short.class, long.class, none.class = 1, 2, 3
	for range 100 {
		m.observe(time.Hour, short, 4000, 0, answer.Usage{Prompt: 1000, Output: 20})
		m.observe(time.Hour, long, 4000, 0, answer.Usage{Prompt: 1000, Output: 2000})
	}
	got := [3]float64{m.typical(short, 0).output, m.typical(long, 0).output, m.typical(none, 0).output}
	if got[0] > 22 || got[1] < 1800 || got[2] < 40 || got[2] > 1000 {
		t.Errorf("answers have %.0f tokens, want 20, 2000, and between them", got)
	}
}

// What has been learned is not replaced by the first answers after a time without any.
func TestTypicalAfterAQuietHour(t *testing.T) {
	m, key := models{}, keyOf("c", 7, 0)
	now := time.Hour
	for range 100 {
		m.observe(now, key, 4000, 0, answer.Usage{Prompt: 1000, Output: 200})
	}
	now += time.Hour
	for range 3 {
		m.observe(now, key, 4000, 0, answer.Usage{Prompt: 1_000_000, Output: 1_000_000})
	}
	if l := m.typical(key, 0); l.prompt > 1500 || l.output > 300 {
		t.Errorf("after three answers: %g tokens a prompt and %g an answer, want 1000 and 200", l.prompt, l.output)
	}
}

// A configured estimate of no tokens does not give requests zero load, and no answer counts as longer than a request
// may be.
func TestEstimateBeyondTheGuess(t *testing.T) {
	c := &config.Config{BytesPerToken: 4, MaxRequestTokens: 5000}
	w := work{info: prompt.Info{MaxTokens: 1000}}
	w.model.guess = guessOf(c)
	w.typical = models{}.typical(w.model, w.info.MaxTokens)
	if p, o := w.estimate(c, 4000); p == 0 || o == 0 {
		t.Errorf("%d tokens of a prompt that cannot be read, %d of an answer; want some of each", p, o)
	}
	m := models{}
	m.observe(time.Hour, w.model, 0, 0, answer.Usage{Prompt: 1_000_000_000, Output: 1_000_000_000})
	if l := m.typical(w.model, 0); l.prompt > 5000 || l.output > 5000 {
		t.Errorf("after one answer: %g tokens a prompt, %g an answer, too many for a request", l.prompt, l.output)
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
		if c.core.first.readsUsage() {
			read++
		}
		c.Finish()
	}
	for range sampleFirst {
		send(400, `{"error":"no"}`)
		send(200, `{"choices":[]}`)
	}
	read = 0
	const usage = `{"usage":{"prompt_tokens":120,"completion_tokens":100}}`
	for range sampleFirst {
		send(200, usage)
	}
	if read != sampleFirst {
		t.Errorf("%d of the first %d answers with usage were read", read, sampleFirst)
	}
	if got := d.outputs(); got < 99 || got > 101 {
		t.Errorf("answers are estimated to have %g tokens, want 100", got)
	}
}
