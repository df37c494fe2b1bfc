package lb

import (
	"slices"

	"github.com/warmgate/warmgate/lb/prompt"
)

// Run is a part of a prompt whose blocks a store keeps in one page. Every store cuts prompts into the same runs.
type Run struct {
	From   int            // its first block's place in the prompt
	Blocks []prompt.Block // of the prompt, from there on
	Slot   int            // where the page is, counted from 0
}

// leastSlots are enough for every run of the longest prompt to have one of its own.
const leastSlots = 16

// AppendRuns appends the runs of a prompt, and gives each one of so many slots, or of 16 if there are fewer. The slot follows from
// the key of the run's first block. If an earlier run of the prompt is there it is the next one that is free: all prompts that
// have this run have the earlier ones too, so they agree on it.
func AppendRuns(runs []Run, blocks []prompt.Block, slots int) []Run {
	slots = max(slots, leastSlots)
	first := len(runs)
	for from := 0; from < len(blocks); from = runEnd(from) {
		slot := int(blocks[from].Key % uint64(slots))
		for slices.ContainsFunc(runs[first:], func(r Run) bool { return r.Slot == slot }) {
			slot = (slot + 1) % slots
		}
		runs = append(runs, Run{from, blocks[from:min(runEnd(from), len(blocks))], slot})
	}
	return runs
}

// runEnd returns where the run that begins with a block ends: behind 2, 4, 8, 16 and 32 blocks, and then each 16. The first runs are
// short, because many conversations begin with the same prompt, and all that branch off within a run share its room; the longer
// ones behind them, which hold most of a prompt, are each prompt's own.
func runEnd(from int) int { return from + min(max(2, from), 16) }
