package learned

// Rates are how many tokens bytes of prompts and events of streams stand for, where an answer does not say: by cluster
// and model, 0 for all models. They are sums over answers that did say, so that what is estimated by them is right in
// sum, even if single requests differ.
type Rates map[RateKey]rate

// RateKey is what a rate is for.
type RateKey struct {
	Cluster string
	Model   uint64 // hash of its name, 0 for all
}

// rate has the sums of a model.
type rate struct{ text, body, events, prompts, outputs ratio }

// ratio is tokens for each of something.
type ratio struct{ tokens, of float64 }

const (
	// maxRates is how many models have rates of their own.
	maxRates = 256
	// ratesKeep is how much of the sums is left after the next answer: that of the latest hundred counts.
	ratesKeep = 0.99
)

func (r *ratio) add(tokens, of int64) {
	if tokens <= 0 || of <= 0 {
		return
	}
	r.tokens, r.of = ratesKeep*r.tokens+float64(tokens), ratesKeep*r.of+float64(of)
}

// Passed is what has passed of a request and its answer.
type Passed struct {
	Text   int64 // bytes of its prompt's text, 0 if that is not known
	Body   int64 // bytes of its body, 0 if that says nothing
	Events int64 // of its answer, with output
}

// Observe takes in that the answer to a request reported so many tokens.
func (m Rates) Observe(k RateKey, p Passed, prompt, output int64) {
	for _, k := range [...]RateKey{k, {Cluster: k.Cluster}} {
		r, known := m[k]
		if !known && len(m) >= maxRates {
			for any := range m { // which one does not matter: it is learned again with its next answer
				delete(m, any)
				break
			}
		}
		if r.text.add(prompt, p.Text); p.Text == 0 {
			r.body.add(prompt, p.Body)
		}
		r.events.add(output, p.Events)
		r.prompts.add(prompt, 1)
		r.outputs.add(output, 1)
		if m[k] = r; k.Model == 0 {
			return
		}
	}
}

// Prompt estimates the tokens of a prompt, by so many bytes for each if nothing is known of it.
func (m Rates) Prompt(k RateKey, p Passed, bytesPerToken float64) int64 {
	if p.Text > 0 {
		return m.estimate(k, func(r *rate) *ratio { return &r.text }, p.Text, 1/bytesPerToken)
	}
	return m.estimate(k, func(r *rate) *ratio { return &r.body }, p.Body, 1/bytesPerToken)
}

// Output estimates the tokens of a stream by its events: one each, if nothing is known.
func (m Rates) Output(k RateKey, p Passed) int64 {
	return m.estimate(k, func(r *rate) *ratio { return &r.events }, p.Events, 1)
}

// Typical returns how many tokens a prompt and an answer have on average, or a guess where nothing is known.
func (m Rates) Typical(k RateKey, guess int) (prompt, output int64) {
	return m.estimate(k, func(r *rate) *ratio { return &r.prompts }, 1, float64(guess)),
		m.estimate(k, func(r *rate) *ratio { return &r.outputs }, 1, float64(guess))
}

func (m Rates) estimate(k RateKey, which func(*rate) *ratio, n int64, each float64) int64 {
	for _, k := range [...]RateKey{k, {Cluster: k.Cluster}} {
		if r, known := m[k]; known {
			if x := which(&r); x.of > 0 {
				each = x.tokens / x.of
				break
			}
		}
	}
	return int64(float64(n)*each + 0.5)
}
