package engine

// Work is what the requests of an engine have before them.
type Work struct {
	Prefill int // tokens of prompts that are neither cached nor computed
	Decodes int // requests whose prompt is computed
	Left    int // tokens of all answers that are to come
}

// Work returns what is to be done.
func (e *Engine) Work() (w Work) {
	add := func(r *Request, computed int) {
		w.Prefill += max(0, r.prompt-computed)
		w.Left += r.Answer - r.generated
	}
	for _, r := range e.running {
		if r.computed >= r.prompt {
			w.Decodes++
		}
		add(r, r.computed)
	}
	for _, r := range e.waiting {
		add(r, e.Cached(r.Prompt))
	}
	return w
}
