package learned

// PromptSizes is how many tokens and blocks prompts have: moving averages.
type PromptSizes struct{ tokens, blocks float64 }

// Observe averages a prompt in: its tokens, as the response reported them, and its blocks.
func (p *PromptSizes) Observe(tokens, blocks int) {
	if tokens > 0 && blocks > 0 {
		p.tokens = toward(p.tokens, float64(tokens), learnedShare)
		p.blocks = toward(p.blocks, float64(blocks), learnedShare)
	}
}

// PerBlock returns how many tokens a block has, 0 while no prompt is known.
func (p *PromptSizes) PerBlock() float64 {
	if p.blocks == 0 {
		return 0
	}
	return p.tokens / p.blocks
}
