package engine

import "time"

// Interference is by which part of itself what a step computes of prompts, and of answers, takes longer for each other
// engine on the same processor that is at work.
type Interference struct{ Prefill, Decode float64 }

// Processor is what several engines run on, each with a part of it of its own. They share the memory's bandwidth, so
// that an engine's steps take longer while others are at work.
type Processor struct {
	of      Interference
	engines []*Engine
}

// NewProcessor returns a processor without engines.
func NewProcessor(of Interference) *Processor { return &Processor{of: of} }

// RunOn has an engine run on a processor with others. How many of them are at work is looked at when a step begins, and
// after some steps that are alike.
func (e *Engine) RunOn(p *Processor) {
	e.processor = p
	p.engines = append(p.engines, e)
}

// lookAgain is after how many steps that are alike an engine looks at the others.
const lookAgain = 4

// takes is how long a step takes with so many prompts that begin, tokens of prompts, and requests that decode.
func (e *Engine) takes(prompts, prefill, decodes int) time.Duration {
	t := e.times
	if e.apart {
		prompts, prefill, decodes = 0, 0, 1
	}
	if p := e.processor; p != nil {
		others := 0.0
		for _, o := range p.engines {
			if o != e && o.steps > 0 {
				others++
			}
		}
		t.PrefillTokenMS *= 1 + p.of.Prefill*others
		t.DecodeStepMS *= 1 + p.of.Decode*others
		t.DecodeSeqMS *= 1 + p.of.Decode*others
	}
	return max(1, t.Step(prompts, prefill, decodes, 0))
}
