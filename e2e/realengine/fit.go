package main

import (
	"context"
	"slices"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/internal/vllmsim"
)

// fitSize is the prompt length the prefill time is learnt from. The other sizes of the comparison are left for the
// model to predict.
const fitSize = 1000

// calibrate learns the times of a real engine from a cold and a repeated prompt of one length and from answers decoded
// alone and together, for a simulation with blocks of the size given.
func calibrate(ctx context.Context, s server, block int, prompts uint64) vllmsim.Tuning {
	p := newProber(target{s.url, servers{s}, prompts})
	defer p.client.Close()
	// The first request of a fresh engine pays for more than its tokens.
	p.send(ctx, p.tokens(64), 4)
	var cold, warm []float64
	for range repeats {
		prompt := p.tokens(fitSize)
		first := p.send(ctx, prompt, 2)
		again := p.send(ctx, prompt, 2)
		cold, warm = append(cold, bench.MS(first.TTFT)), append(warm, bench.MS(again.TTFT))
	}
	var r report
	p.decode(ctx, &r)
	return fit(block, slices.Min(cold), slices.Min(warm), r.decodeAlone, r.decodeFull)
}

// fit turns four times, in ms, into the simulation's parameters: first token of a cold and of a cached prompt of
// fitSize tokens, and the time between tokens alone and with all slots busy.
func fit(block int, cold, warm, alone, full float64) vllmsim.Tuning {
	// The simulation finds whole blocks in its cache and always computes the last token; the rest of a repeated prompt
	// costs it time that must not be counted twice.
	rest := float64(fitSize - (fitSize-1)/block*block)
	t := vllmsim.NoLatency()
	t.PrefillTokenMS = max(0, cold-warm) / (fitSize - rest)
	t.PrefillOverheadMS = max(0, warm-rest*t.PrefillTokenMS)
	t.DecodeSeqMS = max(0, full-alone) / (slots - 1)
	t.DecodeStepMS = max(0, alone-t.DecodeSeqMS)
	return t
}
