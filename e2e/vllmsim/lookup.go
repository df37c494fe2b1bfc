package vllmsim

// Prompt is the prompt of a request as a server's KV cache sees it.
type Prompt struct {
	Tokens      int
	BlockTokens int
	// names of the blocks that can be taken from the cache, each of all of the prompt up to its end
	Chain []uint64
}

// Prompt reads the body of a chat completion, or else of a text completion. The result is valid for all servers with
// the same block size and, if the body names no model, the same model.
func (s *Server) Prompt(body string, chat bool) (Prompt, error) {
	req, err := parseRequest(body, chat, true)
	if err != nil {
		return Prompt{}, err
	}
	chain := extendChain(nil, req.salt, req.prompt, s.cfg.BlockSize*bytesPerToken)
	return Prompt{
		Tokens: req.promptLen, BlockTokens: s.cfg.BlockSize,
		Chain: chain[:usable(len(chain), req.promptLen, s.cfg.BlockSize)],
	}, nil
}

// Cached returns how many leading tokens of the prompt the server would not have to compute if the request were
// admitted now, or once it has computed those that are under way there.
func (s *Server) Cached(p *Prompt, underWay ...*Prompt) int {
	s.engine.mu.Lock()
	defer s.engine.mu.Unlock()
	hits, _ := s.engine.sched.cache.lookup(p.Chain)
	for _, other := range underWay {
		n := 0
		for n < min(len(p.Chain), len(other.Chain)) && p.Chain[n] == other.Chain[n] {
			n++
		}
		hits = max(hits, n)
	}
	return hits * s.cfg.BlockSize
}

// usable is how many of the full blocks of so many tokens can come from the cache: the last token is always computed,
// since its output is the next token.
func usable(blocks, tokens, blockSize int) int { return min(blocks, (tokens-1)/blockSize) }
