package request

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb/answer"
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/plugin/clusters"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/learned"
)

func TestEstimate(t *testing.T) {
	c := &config.Config{BytesPerToken: 4, OutputTokens: 256, MaxRequestTokens: 5000}
	for _, tc := range []struct {
		name           string
		info           prompt.Info
		seen, size     int
		prompt, output int64
	}{
		{"nothing known", prompt.Info{}, 0, 0, 0, 256},
		{"text", prompt.Info{TextBytes: 4000}, 4100, 4100, 1000, 256},
		{"what was not seen is like what was", prompt.Info{TextBytes: 2000}, 4000, 8000, 1000, 256},
		{"what was not seen behind an image", prompt.Info{TextBytes: 40}, 4000, 400_000, 1000, 256},
		{"what cannot be read", prompt.Info{}, 0, 2000, 500, 256},
		{"a lot that cannot be read", prompt.Info{}, 0, 1 << 30, 512, 256},
		{"its own limit", prompt.Info{MaxTokens: 10}, 0, 0, 0, 10},
		{"several answers", prompt.Info{MaxTokens: 10, N: 3}, 0, 0, 0, 30},
		{"token ids", prompt.Info{TokenIDs: 77, TextBytes: 4}, 300, 300, 78, 256},
		{"token ids that were not seen", prompt.Info{TokenIDs: 77}, 300, 900, 231, 256},
		{"a limit beyond what is typical", prompt.Info{MaxTokens: 1000}, 0, 0, 0, 256},
		{"many answers", prompt.Info{MaxTokens: 1000, N: 9}, 0, 0, 0, 512},
		{"a limit beyond reason", prompt.Info{TextBytes: 4000, MaxTokens: 1 << 30, N: 1 << 30}, 4100, 4100, 1000, 512},
		{"a prompt beyond reason", prompt.Info{TextBytes: 1 << 20, MaxTokens: 10}, 1 << 20, 1 << 40, 5000, 0},
		{"nearly as much as may be", prompt.Info{TextBytes: 4 * 4900}, 4 * 4900, 4 * 4900, 4900, 100},
		{"embeddings generate nothing", prompt.Info{TextBytes: 40, API: prompt.Embeddings}, 60, 60, 10, 0},
		{"rerank generates nothing", prompt.Info{TextBytes: 40, API: prompt.Rerank, MaxTokens: 5}, 60, 60, 10, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			typical := learned.Models{}.Typical(learned.Key{Guess: clusters.GuessOf(c)}, tc.info.MaxTokens)
			w := Work{Info: tc.info, Seen: tc.seen, typical: typical}
			if p, o := w.Estimate(c, tc.size); p != tc.prompt || o != tc.output {
				t.Fatalf("%d and %d tokens, want %d and %d", p, o, tc.prompt, tc.output)
			}
		})
	}
}

// What a request expects of its answer takes the place of what is typical, within the bounds of that.
func TestEstimateByTheRequest(t *testing.T) {
	c := &config.Config{BytesPerToken: 4, OutputTokens: 256, MaxRequestTokens: 5000}
	for _, tc := range []struct {
		said   string
		info   prompt.Info
		output int64
	}{
		{"", prompt.Info{}, 256},
		{"1", prompt.Info{}, 1},
		{"400", prompt.Info{}, 400},
		{"513", prompt.Info{}, 512},
		{"9223372036854775807", prompt.Info{}, 512},
		{"9223372036854775808", prompt.Info{}, 256},
		{"400", prompt.Info{MaxTokens: 30}, 30},
		{"400", prompt.Info{MaxTokens: 1 << 30}, 400},
		{"20", prompt.Info{MaxTokens: 30, N: 3}, 60},
		{"400", prompt.Info{N: 9}, 512},
		{"400", prompt.Info{API: prompt.Embeddings}, 0},
		{"400", prompt.Info{TextBytes: 4 * 4900}, 100},
		{"0", prompt.Info{}, 256},
		{"-7", prompt.Info{}, 256},
		{"1.5", prompt.Info{}, 256},
		{"many", prompt.Info{}, 256},
	} {
		typical := learned.Models{}.Typical(learned.Key{Guess: clusters.GuessOf(c)}, tc.info.MaxTokens)
		h := Hints{output: Lookup{Text: tc.said}}
		w := Work{Info: tc.info, Seen: 1, typical: typical, Said: h.outputTokens()}
		if _, o := w.Estimate(c, 1); o != tc.output {
			t.Errorf("%q, %+v: %d tokens, want %d", tc.said, tc.info, o, tc.output)
		}
	}
}

// A configured estimate of no tokens does not give requests zero load, and no answer counts as longer than a request
// may be.
func TestEstimateBeyondTheGuess(t *testing.T) {
	c := &config.Config{BytesPerToken: 4, MaxRequestTokens: 5000}
	w := Work{Info: prompt.Info{MaxTokens: 1000}}
	w.Model.Guess = clusters.GuessOf(c)
	w.typical = learned.Models{}.Typical(w.Model, w.Info.MaxTokens)
	if p, o := w.Estimate(c, 4000); p == 0 || o == 0 {
		t.Errorf("%d tokens of a prompt that cannot be read, %d of an answer; want some of each", p, o)
	}
	m := learned.Models{}
	m.Observe(time.Hour, w.Model, 0, 0, answer.Usage{Prompt: 1_000_000_000, Output: 1_000_000_000})
	if l := m.Typical(w.Model, 0); l.Prompt > 5000 || l.Output > 5000 {
		t.Errorf("after one answer: %g tokens a prompt, %g an answer, too many for a request", l.Prompt, l.Output)
	}
}
