package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/warmgate/warmgate/internal/simulate"
)

// server is what flags say of a simulated model server.
type server struct {
	simulate.Engine
	cache tokens
}

// usualServer is a server that no flag describes.
func usualServer() server {
	e := simulate.DefaultEngine()
	return server{e, tokens(e.Config.NumBlocks * e.Config.BlockSize)}
}

// addFlags adds the flags of the server.
func (s *server) addFlags(command *cobra.Command) {
	f, c, t := command.Flags(), &s.Config, &s.Times
	f.IntVar(&c.MaxNumSeqs, "batch", c.MaxNumSeqs, "requests that a server runs at once")
	f.IntVar(&c.MaxQueued, "queue", c.MaxQueued, "requests that may wait in a server; below 0: any number")
	f.Var(&s.cache, "cache", "tokens that the KV cache of a server holds")
	f.Float64Var(&t.PrefillOverheadMS, "prompt-ms", t.PrefillOverheadMS, "ms that a server spends on each prompt")
	f.Float64Var(&t.PrefillTokenMS, "prefill-ms", t.PrefillTokenMS, "ms for each token of a prompt that is not cached")
	f.Float64Var(&t.DecodeStepMS, "step-ms", t.DecodeStepMS, "ms for each step that decodes")
	f.Float64Var(&t.DecodeSeqMS, "sequence-ms", t.DecodeSeqMS, "ms more for each request that decodes in a step")
}

// maxBatch bounds what fits into the time of a step.
const maxBatch = 1_000_000

// validate refuses what there cannot be, and takes over the size of the cache.
func (s *server) validate() error {
	c := &s.Config
	c.NumBlocks = int(s.cache) / c.BlockSize
	switch {
	case c.NumBlocks < 1 || c.MaxNumSeqs < 1:
		return fmt.Errorf("want a --cache of %d tokens and a --batch of 1 at least", c.BlockSize)
	case c.MaxNumSeqs > maxBatch:
		return fmt.Errorf("want a --batch of %d at most", maxBatch)
	case c.MaxQueued == 0:
		return errors.New("want a --queue of 1 at least, or below 0 for any number")
	}
	return s.Times.Validate()
}
