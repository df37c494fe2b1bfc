package core

import (
	"fmt"
	"testing"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/plugin/learned"
)

// Under a policy that does not need the cached tokens, all answers are read at first, and later some of them.
func TestReadsASample(t *testing.T) {
	d := startFake(t, 1, 1, tokensConfig)
	read := 0
	send := func(output int) {
		c := d.client(0, streamtest.Request{Frames: []string{chatOf(`"model-a"`, 1, 4000)}})
		c.Head(200)
		c.Data(fmt.Sprintf(`{"usage":{"prompt_tokens":120,"completion_tokens":%d}}`, output))
		if c.core.first.Response.Usage {
			read++
		}
		c.Finish()
	}
	for range learned.SampleFirst {
		send(100)
	}
	if read != learned.SampleFirst {
		t.Errorf("%d of the first %d answers were read", read, learned.SampleFirst)
	}
	for range 10 * learned.SampleEvery {
		send(100)
	}
	if read != learned.SampleFirst+10 {
		t.Errorf("%d of %d answers were read after those", read-learned.SampleFirst, 10*learned.SampleEvery)
	}
	if got := d.outputs(); got < 99 || got > 101 {
		t.Errorf("answers are estimated to have %g tokens, want 100", got)
	}
	c := d.client(0, streamtest.Request{Frames: []string{chatOf(`"model-a"`, 1, 4000)}})
	if got := d.Load(0).Tokens; got < 210 || got > 230 {
		t.Errorf("%d tokens in flight, want 120 of the prompt and 100 of the answer", got)
	}
	c.Finish()
}

// The usage of several answers is one number.
func TestLearnsOfEachAnswer(t *testing.T) {
	d := startFake(t, 1, 1, tokensConfig)
	for range 20 {
		c := d.client(0, streamtest.Request{Frames: []string{`{"model":"m","n":4,"prompt":"a"}`}})
		c.Head(200)
		c.Data(`{"usage":{"prompt_tokens":12,"completion_tokens":400}}`)
		c.Finish()
	}
	if got := d.outputs(); got != 100 {
		t.Errorf("an answer is estimated to have %g tokens, want 100", got)
	}
	c := d.client(0, streamtest.Request{Frames: []string{`{"model":"m","n":4,"prompt":"a"}`}})
	c.Head(200)
	c.Data(`{"usage":{"prompt_tokens":12,"completion_tokens":1}}`)
	c.ResetByClient()
	if got := d.outputs(); got != 100 {
		t.Errorf("an answer is estimated to have %g tokens after one that broke off, want 100", got)
	}
}
