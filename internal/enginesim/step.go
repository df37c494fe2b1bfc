package enginesim

// step is the work of one engine step.
type step struct {
	work    []share
	started int // prompts whose prefill begins
	prefill int // prompt tokens to compute
	decodes int // requests that decode
	loads   int // adapters that were not loaded
}

// share is the part of a step one request gets.
type share struct {
	req    *Request
	tokens int
}

// give adds a request's share to the step.
func (st *step) give(r *Request, tokens int) {
	st.work = append(st.work, share{r, tokens})
	if tokens == 1 && r.computed >= r.promptTokens {
		st.decodes++
		return
	}
	st.prefill += tokens
	if !r.started {
		r.started = true
		st.started++
	}
}
