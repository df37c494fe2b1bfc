package core

import (
	"testing"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/plugin/learned"
)

// Requests that end without usage do not use up the sample, unless no request has usage.
func TestSampleCountsUsage(t *testing.T) {
	d := startFake(t, 1, 1, tokensConfig)
	read := 0
	send := func(status int, answer string) {
		c := d.client(0, streamtest.Request{Frames: []string{chatOf(`"model-a"`, 1, 4000)}})
		c.Head(status)
		c.Data(answer)
		if c.core.first.Response.Usage {
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
