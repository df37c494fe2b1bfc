package main

import (
	"testing"

	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/plugin/config"
)

func TestEstimate(t *testing.T) {
	c := &config.Config{BytesPerToken: 4, OutputTokens: 256, MaxRequestTokens: 5000}
	for _, tc := range []struct {
		name           string
		info           prompt.Info
		unseen         int
		prompt, output int64
	}{
		{"nothing known", prompt.Info{}, 0, 0, 256},
		{"text", prompt.Info{TextBytes: 4000}, 0, 1000, 256},
		{"what was not seen counts as text", prompt.Info{TextBytes: 4000}, 400, 1100, 256},
		{"a wrong content-length", prompt.Info{TextBytes: 4000}, -400, 1000, 256},
		{"its own limit", prompt.Info{MaxTokens: 10}, 0, 0, 10},
		{"several answers", prompt.Info{MaxTokens: 10, N: 3}, 0, 0, 30},
		{"token ids", prompt.Info{TokenIDs: 77, TextBytes: 4}, 0, 78, 256},
		{"a limit beyond reason", prompt.Info{TextBytes: 4000, MaxTokens: 1 << 30, N: 1 << 30}, 0, 1000, 4000},
		{"a length beyond reason", prompt.Info{MaxTokens: 10}, 1 << 60, 5000, 0},
		{"embeddings generate nothing", prompt.Info{TextBytes: 40, Shape: prompt.Embeddings}, 0, 10, 0},
		{"rerank generates nothing", prompt.Info{TextBytes: 40, Shape: prompt.Rerank, MaxTokens: 5}, 0, 10, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, o := estimate(c, learned{}, &tc.info, tc.unseen)
			if p != tc.prompt || o != tc.output {
				t.Fatalf("%d and %d tokens, want %d and %d", p, o, tc.prompt, tc.output)
			}
		})
	}
}
