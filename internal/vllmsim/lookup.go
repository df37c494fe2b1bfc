package vllmsim

import (
	"time"

	"github.com/warmgate/warmgate/internal/enginesim"
)

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
	return Prompt{
		Tokens: req.promptLen, BlockTokens: s.cfg.BlockSize,
		Chain: s.cfg.Usable(s.cfg.Chain(req.salt, req.prompt), req.promptLen),
	}, nil
}

// Cached returns how many leading tokens of the prompt the server would not have to compute if the request were
// admitted now, or once it has computed those that are under way there.
func (s *Server) Cached(p *Prompt, underWay ...*Prompt) int {
	cached := 0
	s.runner.do(func(e *enginesim.Engine, _ time.Duration) { cached = e.Cached(p.Chain) })
	for _, other := range underWay {
		n := 0
		for n < min(len(p.Chain), len(other.Chain)) && p.Chain[n] == other.Chain[n] {
			n++
		}
		cached = max(cached, n*s.cfg.BlockSize)
	}
	return cached
}

// PromptOf returns the prompt of a chat completion request, as the engine sees it.
func PromptOf(body []byte) ([]byte, error) {
	r, err := parseRequest(string(body), true, true)
	return r.prompt, err
}
