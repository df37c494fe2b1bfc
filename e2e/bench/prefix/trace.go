package main

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/e2e/loadgen"
)

// A trace in the form of Mooncake's names each block of 512 prompt tokens by an id. It is replayed at this scale: a
// block becomes 16 tokens, which is a block of the simulated cache, and all lengths shrink with it.
const (
	traceBlock = 512 // tokens of the trace in a block
	traceScale = 32  // tokens of the trace that become one
)

// Names of the workloads that replay a trace.
const (
	traceName   = "trace"
	middleName  = "tracemid"   // from the middle of the file
	slotsTrace  = "slotstrace" // on the servers of slots, with longer answers
	slotsAnswer = 4            // tokens of the trace's answers that become one there
)

// traced is one request of a trace.
type traced struct {
	Timestamp int   `json:"timestamp"`     // ms
	Input     int   `json:"input_length"`  // tokens
	Output    int   `json:"output_length"` // tokens
	HashIDs   []int `json:"hash_ids"`      // of the blocks of the prompt, in order
}

// readTrace reads a trace, which may be compressed with gzip.
func readTrace(path string) ([]traced, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var from io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		if from, err = gzip.NewReader(f); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return parseTrace(from)
}

// parseTrace reads the requests, a JSON object a line, in order of time.
func parseTrace(from io.Reader) ([]traced, error) {
	var out []traced
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var t traced
		if err := json.Unmarshal(lines.Bytes(), &t); err != nil {
			return nil, fmt.Errorf("trace, line %d: %w", len(out)+1, err)
		}
		if blocks := (t.Input + traceBlock - 1) / traceBlock; t.Input < 1 || t.Output < 1 || blocks != len(t.HashIDs) {
			return nil, fmt.Errorf("trace, line %d: %d blocks for %d tokens, answer of %d", len(out)+1, len(t.HashIDs), t.Input, t.Output)
		}
		if len(out) > 0 && t.Timestamp < out[len(out)-1].Timestamp {
			return nil, fmt.Errorf("trace, line %d: earlier than the one before", len(out)+1)
		}
		out = append(out, t)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, errors.New("trace: no requests")
	}
	return out, nil
}

// replays returns the workloads that replay n requests of a trace, from the given one on or from its middle. Without a
// trace they have a name and nothing to play.
func replays(trace []traced, from, n int, span time.Duration) []workload {
	all := []workload{{name: traceName}, {name: middleName}, {name: slotsTrace}}
	if len(trace) > 0 {
		middle := len(trace) / 2
		all[0] = replay(traceName, trace, from, n, traceScale).over(span)
		all[1] = replay(middleName, trace, middle, n, traceScale).over(span)
		all[2] = replay(slotsTrace, trace, from, n, slotsAnswer).onSlots()
	}
	return all
}

// over sets the time that the arrivals are squeezed into.
func (w workload) over(span time.Duration) workload {
	w.span = span
	return w
}

// onSlots has a replay meet the servers of slots, at the share of their capacity at which some run out of slots now and
// then.
func (w workload) onSlots() workload {
	const load = 0.73
	w.server = fewSlots()
	return w.at(load, capacityOf(&w, 1))
}

// replay is the workload of n requests of a trace from one on, with so many tokens of its answers as one. Nearly all
// prompts of the conversation trace have the first block in common, and nothing more.
func replay(name string, trace []traced, from, n, answers int) workload {
	from = min(max(0, from), len(trace)-1)
	trace = trace[from:min(len(trace), from+n)]
	first, last := trace[0].Timestamp, trace[len(trace)-1].Timestamp
	return workload{
		name: name, kind: name,
		about: fmt.Sprintf("requests of the trace from number %d on, %.0f s of it; prompts ÷ %d, answers ÷ %d, "+
			"a block is %d tokens; session: the second block",
			from, float64(last-first)/1000, traceScale, answers, traceBlock/traceScale),
		servers: 8, server: engine(16, 32<<10), n: len(trace),
		write: func(w *workload, seed uint64) []script {
			out := make([]script, len(trace))
			for i, t := range trace {
				begin := []loadgen.Message{user(t.prompt(seed))}
				out[i] = script{
					session: t.session(i),
					due:     w.span * time.Duration(t.Timestamp-first) / time.Duration(max(1, last-first)),
					turns:   []turn{{parent: -1, add: begin, answer: max(1, t.Output/answers)}},
				}
			}
			return out
		},
	}
}

// prompt returns the text of the prompt: that of each block follows from its id and the seed.
func (t *traced) prompt(seed uint64) string {
	var b strings.Builder
	for _, id := range t.HashIDs {
		b.WriteString(loadgen.Text(rand.New(rand.NewPCG(seed, uint64(id))), traceBlock/traceScale))
	}
	const bytesPerToken = 4 // of loadgen.Text
	return b.String()[:max(1, t.Input/traceScale)*bytesPerToken]
}

// session returns what a client would send as its session: the trace has none, but the turns of a conversation
// have the second block in common.
func (t *traced) session(i int) string {
	if len(t.HashIDs) < 2 {
		return "single " + strconv.Itoa(i)
	}
	return strconv.Itoa(t.HashIDs[1])
}

// hash returns 64 bits that tell texts apart.
func hash(text string) uint64 { return xxhash.Sum64String(text) }
