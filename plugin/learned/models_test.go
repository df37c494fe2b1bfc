package learned

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb/answer"
	"github.com/warmgate/warmgate/lb/prompt"
)

// keyOf is a key with the default estimate.
func keyOf(cluster string, model, tenant uint64) Key {
	return Key{Cluster: cluster, Model: model, Tenant: tenant, Guess: Guess{BytesPerToken: 4, Tokens: 256}}
}

// What is learned of a model follows usage in responses, fast at first and then slowly, and stays within the bounds of
// the configuration.
func TestLearned(t *testing.T) {
	m, key := Models{}, keyOf("c", 7, 0)
	observe := func(textBytes int, u answer.Usage) {
		m.Observe(time.Hour, key, textBytes, 0, u)
	}
	want := func(bytesPerToken, prompt, output float64) {
		t.Helper()
		l := m.Typical(key, 0)
		far := func(a, b float64) bool { return math.Abs(a-b) > b/1000 }
		if far(l.BytesPerToken, bytesPerToken) || far(l.Prompt, prompt) || far(l.Output, output) {
			t.Errorf("%g bytes a token, prompts of %g, answers of %g; want %g, %g, %g",
				l.BytesPerToken, l.Prompt, l.Output, bytesPerToken, prompt, output)
		}
	}
	want(4, 256, 256)
	observe(3000, answer.Usage{Prompt: 1000, Output: 100})
	want(3, 1000, 100)
	observe(12_000, answer.Usage{Prompt: 1000, Output: 400}) // a geometric mean
	want(6, 1000, 200)
	observe(0, answer.Usage{Prompt: 512, Output: -1}) // pictures, and an answer that broke off
	want(6, 800, 200)
	observe(5000, answer.Usage{Output: -1})
	want(6, 800, 200)
	for range 20 {
		observe(4800, answer.Usage{Prompt: 800, Output: 200})
	}
	want(6, 800, 200)
	step := math.Pow(4, 1.0/16)
	observe(24_000, answer.Usage{Prompt: 1000, Output: 1_000_000}) // by four times, and a sixteenth of the way
	want(6*step, 800*math.Pow(1.25, 1.0/16), 200*step)
	observe(1, answer.Usage{Prompt: 1_000_000, Output: -1})
	if l := m[key]; l.prompt > 812*step || l.bytesPerToken < 5.999 {
		t.Errorf("one answer moved %g bytes a token, and prompts of %g, too far", l.bytesPerToken, l.prompt)
	}
	for range 500 {
		observe(1<<30, answer.Usage{Prompt: 1}) // such as embeddings
	}
	if l := m.Typical(key, 0); l.BytesPerToken > 100 || l.Output > 1.001 {
		t.Errorf("%g bytes a token, answers of %g", l.BytesPerToken, l.Output)
	}
}

// A model or a tenant without known usage has the values of the cluster, and a tenant at first those of the model.
func TestLearnedOfOthers(t *testing.T) {
	m := Models{}
	for i, k := range []Key{keyOf("c", 1, 11), keyOf("c", 2, 11)} {
		for range 20 {
			m.Observe(time.Hour, k, 0, 0, answer.Usage{Prompt: 300, Output: 200 * (i + 1)})
		}
	}
	output := func(k Key) float64 { return math.Round(m.Typical(k, 0).Output) }
	if got := output(keyOf("c", 1, 11)); got != 200 {
		t.Errorf("its own answers: %g, want 200", got)
	}
	if got := output(keyOf("c", 1, 12)); got != 200 {
		t.Errorf("another tenant: %g, want 200", got)
	}
	if got := output(keyOf("c", 3, 12)); got < 300 || got > 400 {
		t.Errorf("another model: %g, want what is between", got)
	}
	if got := output(keyOf("d", 1, 11)); got != 256 {
		t.Errorf("another cluster: %g, want the configured guess", got)
	}
}

// Invented names of clients do not displace names in use, and names that are not used any more are dropped.
func TestModelsAreBounded(t *testing.T) {
	m, now := Models{}, time.Hour
	observe := func(model uint64) {
		k := keyOf("c", model, 0)
		m.Observe(now, k, 0, 0, answer.Usage{Prompt: 300, Output: 100})
	}
	const known = 50
	for model := uint64(1); model <= known; model++ {
		for range 3 {
			observe(model)
		}
	}
	flood := func() {
		for model := range uint64(2000) {
			observe(1_000_000 + model)
			if len(m) > maxModels {
				t.Fatalf("%d are kept", len(m))
			}
		}
	}
	kept := func() (n int) {
		for model := uint64(1); model <= known; model++ {
			if m[keyOf("c", model, 0)].answers > 0 {
				n++
			}
		}
		return n
	}
	flood()
	if n := kept(); n != known {
		t.Errorf("%d of %d models that are in use are kept", n, known)
	}
	if m[keyOf("c", 0, 0)].answers == 0 {
		t.Error("what is known of all was forgotten")
	}
	now += 3 * halfLife
	flood()
	if n := kept(); n > 1 {
		t.Errorf("%d models that are no longer in use are kept", n)
	}
}

// One model server of four that reports nonsense shifts the mean values by a bounded factor, however large or small its
// numbers are and however long it lasts.
func TestTypicalWithstandsAMinority(t *testing.T) {
	for name, wrong := range map[string]answer.Usage{
		"huge": {Prompt: 1_000_000_000, Output: 1_000_000_000},
		"tiny": {Prompt: 1, Output: 0},
	} {
		t.Run(name, func(t *testing.T) {
			m, key := Models{}, keyOf("c", 7, 0)
			for i := range 2000 {
				u := answer.Usage{Prompt: 1000, Output: 200}
				if i%4 == 3 {
					u = wrong
				}
				m.Observe(time.Hour, key, 4000, 0, u)
			}
			l := m.Typical(key, 0)
			for what, ratio := range map[string]float64{
				"tokens of a prompt": l.Prompt / 1000, "tokens of an answer": l.Output / 200,
				"bytes per token": l.BytesPerToken / 4,
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
	m, short, long, none := Models{}, keyOf("c", 7, 0), keyOf("c", 7, 0), keyOf("c", 7, 0)
	short.Class, long.Class, none.Class = 1, 2, 3
	for range 100 {
		m.Observe(time.Hour, short, 4000, 0, answer.Usage{Prompt: 1000, Output: 20})
		m.Observe(time.Hour, long, 4000, 0, answer.Usage{Prompt: 1000, Output: 2000})
	}
	got := [3]float64{m.Typical(short, 0).Output, m.Typical(long, 0).Output, m.Typical(none, 0).Output}
	if got[0] > 22 || got[1] < 1800 || got[2] < 40 || got[2] > 1000 {
		t.Errorf("answers have %.0f tokens, want 20, 2000, and between them", got)
	}
}

// What has been learned is not replaced by the first answers after a time without any.
func TestTypicalAfterAQuietHour(t *testing.T) {
	m, key := Models{}, keyOf("c", 7, 0)
	now := time.Hour
	for range 100 {
		m.Observe(now, key, 4000, 0, answer.Usage{Prompt: 1000, Output: 200})
	}
	now += time.Hour
	for range 3 {
		m.Observe(now, key, 4000, 0, answer.Usage{Prompt: 1_000_000, Output: 1_000_000})
	}
	if l := m.Typical(key, 0); l.Prompt > 1500 || l.Output > 300 {
		t.Errorf("after three answers: %g tokens a prompt and %g an answer, want 1000 and 200", l.Prompt, l.Output)
	}
}

// What is known of first texts, of errors and of calls is bounded, and every API has a name.
func TestBounds(t *testing.T) {
	f, e, b := Firsts{}, MatchErrors{}, Calls{}
	for n := range 300 {
		now := time.Duration(n) * time.Second
		f.Of(now, ModelID{"c", uint64(n)})
		e.Observe(prompt.Chat, fmt.Sprint("model-", n), 1, 0.5)
		b.Learn(now, PatternOf("POST", "/"+string(rune('a'+n)), false), ShowsNothing, time.Millisecond, false)
	}
	if len(f) != maxFirstTexts || len(e) != maxMatchErrors+1 || len(b.paths) != maxCallPaths {
		t.Errorf("first texts of %d models, %d errors, %d patterns", len(f), len(e), len(b.paths))
	}
	if prompt.Gemini+1 != prompt.API(len(apiNames)) {
		t.Error("an API has no name")
	}
}

// The share of prompts that caches have is averaged by prompt. A model of which nothing is known has that of all in the
// cluster.
func TestLearnsWhatIsCached(t *testing.T) {
	m, key := Models{}, keyOf("c", 7, 0)
	want := func(k Key, share float64) {
		t.Helper()
		if got := m.Typical(k, 0).Cached; math.Abs(got-share) > 1e-9 {
			t.Errorf("%g of prompts are cached, want %g", got, share)
		}
	}
	want(key, 0)
	m.Observe(time.Hour, key, 0, 0, answer.Usage{Output: 5}) // says nothing of a prompt
	want(key, 0)
	for _, cached := range []int{0, 50, 100, 400} { // no more than all of it
		m.Observe(time.Hour, key, 0, 0, answer.Usage{Prompt: 100, Cached: cached})
	}
	want(key, (0+0.5+1+1)/5) // the first answer counts as one without
	want(keyOf("c", 8, 0), (0+0.5+1+1)/5)
	want(keyOf("other", 7, 0), 0)
	for range 500 {
		m.Observe(time.Hour, key, 0, 0, answer.Usage{Prompt: 100, Cached: 80})
	}
	want(key, 0.8)
}
