package main

import (
	"testing"

	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/plugin/config"
)

// What is learned of a model follows what responses tell, slowly, and never leaves the bounds of the configuration.
func TestLearned(t *testing.T) {
	c := &config.Config{BytesPerToken: 4, OutputTokens: 256, MaxRequestTokens: 100_000}
	info := &prompt.Info{TextBytes: 6000, MaxTokens: 1000}
	var l learned
	want := func(prompt, output int64) {
		t.Helper()
		if p, o := estimate(c, l, info, 0); p != prompt || o != output {
			t.Errorf("%d and %d tokens, want %d and %d", p, o, prompt, output)
		}
	}
	want(1500, 1000)
	l.told(6000, prompt.Usage{Prompt: 2000, Output: 100})
	want(2000, 100)
	l.told(6000, prompt.Usage{Prompt: 1000, Output: 260})
	want(1882, 110) // a sixteenth of the way to 6 bytes a token, and to 260 tokens
	l.told(0, prompt.Usage{Prompt: 1000})
	l.told(6000, prompt.Usage{})
	want(1882, 110)
	info.MaxTokens = 50
	want(1882, 50)
	info.N = 3
	want(1882, 150)
	info.MaxTokens = 0
	want(1882, 330)
	for range 500 {
		l.told(1<<30, prompt.Usage{Prompt: 1})
	}
	if l.bytesPerToken > 100 {
		t.Errorf("%g bytes a token", l.bytesPerToken)
	}
}
