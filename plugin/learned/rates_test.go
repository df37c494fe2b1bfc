package learned

import (
	"testing"

	"pgregory.net/rapid"
)

// What answers without usage took is right in sum, whatever the lengths are.
func TestRates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		perEvent := rapid.Float64Range(1, 4).Draw(t, "tokens for each event")
		perByte := rapid.Float64Range(0.1, 0.5).Draw(t, "tokens for each byte")
		r := Rates{}
		k := RateKey{"c", 7}
		one := func() (p Passed, prompt, output int64) {
			p.Body = int64(rapid.IntRange(1000, 20000).Draw(t, "bytes"))
			p.Events = int64(rapid.IntRange(50, 1000).Draw(t, "events"))
			return p, int64(float64(p.Body) * perByte), int64(float64(p.Events) * perEvent)
		}
		for range 30 {
			p, prompt, output := one()
			r.Observe(k, p, prompt, output)
		}
		for _, k := range []RateKey{k, {"c", 8}} { // one that is not known goes by all
			var want, got int64
			for range 10 {
				p, prompt, output := one()
				want += prompt + output
				got += r.Prompt(k, p, 4) + r.Output(k, p)
			}
			if off := max(got-want, want-got); off*50 > want {
				t.Fatalf("%d tokens, want %d", got, want)
			}
		}
	})
}

// Nothing known: a token for each event, and as many bytes as configured. What was learned of text says nothing of
// bodies.
func TestRatesAtFirst(t *testing.T) {
	r := Rates{}
	k := RateKey{"c", 0}
	if p := (Passed{Body: 400, Events: 9}); r.Prompt(k, p, 4) != 100 || r.Output(k, p) != 9 {
		t.Errorf("%d and %d tokens, want 100 and 9", r.Prompt(k, p, 4), r.Output(k, p))
	}
	r.Observe(k, Passed{Text: 1000, Body: 1200}, 500, 0)
	if p := (Passed{Body: 400}); r.Prompt(k, p, 4) != 100 {
		t.Errorf("%d tokens, want 100", r.Prompt(k, p, 4))
	}
	if p := (Passed{Text: 400, Body: 600}); r.Prompt(k, p, 4) != 200 {
		t.Errorf("%d tokens, want 200", r.Prompt(k, p, 4))
	}
}

// What is typical is the mean of answers that said it: of the model, or of all, or else what is guessed.
func TestTypicalRates(t *testing.T) {
	r := Rates{}
	r.Observe(RateKey{"c", 1}, Passed{}, 1000, 100)
	r.Observe(RateKey{"c", 1}, Passed{}, 1000, 0) // an answer without output is no short one
	r.Observe(RateKey{"c", 2}, Passed{}, 4000, 100)
	for _, c := range []struct {
		of             RateKey
		prompt, output int64
	}{{RateKey{"c", 1}, 1000, 100}, {RateKey{"c", 3}, 2010, 100}, {RateKey{"d", 1}, 256, 256}} {
		if prompt, output := r.Typical(c.of, 256); prompt != c.prompt || output != c.output {
			t.Errorf("%v: %d and %d tokens, want %d and %d", c.of, prompt, output, c.prompt, c.output)
		}
	}
}

// However many models there are, they take bounded memory, and those that are used are known.
func TestRatesAreBounded(t *testing.T) {
	r := Rates{}
	for i := range uint64(10 * maxRates) {
		r.Observe(RateKey{"c", i + 1}, Passed{Events: 10}, 0, 20)
	}
	if len(r) > maxRates {
		t.Errorf("%d rates, want %d at most", len(r), maxRates)
	}
	if got := r.Output(RateKey{"c", 1 << 40}, Passed{Events: 10}); got != 20 {
		t.Errorf("%d tokens, want 20", got)
	}
}
