package core

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/lb/answer"
)

// keyOf is a key with the default estimate.
func keyOf(cluster string, model, tenant uint64) modelKey {
	return modelKey{cluster: cluster, model: model, tenant: tenant, guess: guess{bytesPerToken: 4, tokens: 256}}
}

// What is learned of a model follows usage in responses, fast at first and then slowly, and stays within the bounds of
// the configuration.
func TestLearned(t *testing.T) {
	m, key := models{}, keyOf("c", 7, 0)
	observe := func(textBytes int, u answer.Usage) {
		m.observe(time.Hour, key, textBytes, 0, u)
	}
	want := func(bytesPerToken, prompt, output float64) {
		t.Helper()
		l := m.typical(key, 0)
		far := func(a, b float64) bool { return math.Abs(a-b) > b/1000 }
		if far(l.bytesPerToken, bytesPerToken) || far(l.prompt, prompt) || far(l.output, output) {
			t.Errorf("%g bytes a token, prompts of %g, answers of %g; want %g, %g, %g",
				l.bytesPerToken, l.prompt, l.output, bytesPerToken, prompt, output)
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
	if l := m.typical(key, 0); l.bytesPerToken > 100 || l.output > 1.001 {
		t.Errorf("%g bytes a token, answers of %g", l.bytesPerToken, l.output)
	}
}

// A model or a tenant without known usage has the values of the cluster, and a tenant at first those of the model.
func TestLearnedOfOthers(t *testing.T) {
	m := models{}
	for i, k := range []modelKey{keyOf("c", 1, 11), keyOf("c", 2, 11)} {
		for range 20 {
			m.observe(time.Hour, k, 0, 0, answer.Usage{Prompt: 300, Output: 200 * (i + 1)})
		}
	}
	output := func(k modelKey) float64 { return math.Round(m.typical(k, 0).output) }
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
	m, now := models{}, time.Hour
	observe := func(model uint64) {
		k := keyOf("c", model, 0)
		m.observe(now, k, 0, 0, answer.Usage{Prompt: 300, Output: 100})
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

// Under a policy that does not need the cached tokens, all answers are read at first, and later some of them.
func TestReadsASample(t *testing.T) {
	d := startFake(t, 1, 1, tokensConfig)
	read := 0
	send := func(output int) {
		c := d.client(0, streamtest.Request{Frames: []string{chatOf(`"model-a"`, 1, 4000)}})
		c.Head(200)
		c.Data(fmt.Sprintf(`{"usage":{"prompt_tokens":120,"completion_tokens":%d}}`, output))
		if c.core.first.readsUsage() {
			read++
		}
		c.Finish()
	}
	for range sampleFirst {
		send(100)
	}
	if read != sampleFirst {
		t.Errorf("%d of the first %d answers were read", read, sampleFirst)
	}
	for range 10 * sampleEvery {
		send(100)
	}
	if read != sampleFirst+10 {
		t.Errorf("%d of %d answers were read after those", read-sampleFirst, 10*sampleEvery)
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
