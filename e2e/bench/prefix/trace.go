package prefix

import (
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/e2e/traffic"
	"github.com/warmgate/warmgate/internal/mooncake"
)

// Names of the workloads that replay a trace.
const (
	traceName   = "trace"
	middleName  = "tracemid"   // from the middle of the file
	slotsTrace  = "slotstrace" // on the servers of slots, with longer answers
	slotsAnswer = 4            // tokens of the trace's answers that become one there
)

// replays returns the workloads that replay n requests of a trace, from the given one on or from its middle. Without a
// trace they have a name and nothing to play.
func replays(trace []mooncake.Request, from, n int, span time.Duration) []workload {
	all := []workload{{name: traceName}, {name: middleName}, {name: slotsTrace}}
	if len(trace) > 0 {
		middle := len(trace) / 2
		all[0] = replay(traceName, trace, from, n, traffic.TraceScale).over(span)
		all[1] = replay(middleName, trace, middle, n, traffic.TraceScale).over(span)
		all[2] = replay(slotsTrace, trace, from, n, slotsAnswer).onSlots()
	}
	return all
}

// over sets the time that the arrivals are squeezed into.
func (w workload) over(span time.Duration) workload {
	w.span = span
	return w
}

// onSlots plays a replay on the servers of slots, at the share of their capacity at which some run out of slots now and
// then.
func (w workload) onSlots() workload {
	const load = 0.73
	w.server = fewSlots()
	return w.at(load, capacityOf(&w, 1))
}

// replay is the workload of n requests of a trace from one on, with so many tokens of its answers as one. Nearly all
// prompts of the conversation trace have the first block in common, and nothing more.
func replay(name string, trace []mooncake.Request, from, n, answers int) workload {
	from = min(max(0, from), len(trace)-1)
	trace = trace[from:min(len(trace), from+n)]
	first, last := trace[0].Timestamp, trace[len(trace)-1].Timestamp
	return workload{
		name: name, kind: name,
		about: fmt.Sprintf("requests of the trace from number %d on, %.0f s of it; prompts ÷ %d, answers ÷ %d, "+
			"a block is %d tokens; session: the second block",
			from, float64(last-first)/1000, traffic.TraceScale, answers, mooncake.Block/traffic.TraceScale),
		servers: 8, server: traffic.Engine(16, 32<<10), n: len(trace),
		write: func(w *workload, seed uint64) []script {
			out := traffic.Replay(trace, seed, answers)
			for i := range out {
				out[i].Due = w.span * time.Duration(trace[i].Timestamp-first) / time.Duration(max(1, last-first))
			}
			return out
		},
	}
}

// hash returns a 64-bit hash that distinguishes texts.
func hash(text string) uint64 { return xxhash.Sum64String(text) }
