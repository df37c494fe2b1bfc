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

// A trace in the form of Mooncake's names each block of 512 prompt tokens by an id. It is replayed at this scale: a block
// becomes 16 tokens, which is a block of the simulated cache, and all lengths shrink with it.
const (
	traceBlock = 512 // tokens of the trace in a block
	traceScale = 32  // tokens of the trace that become one
)

// traceName names the workload.
const traceName = "trace"

// traced is one request of a trace.
type traced struct {
	Timestamp int   `json:"timestamp"`     // ms
	Input     int   `json:"input_length"`  // tokens
	Output    int   `json:"output_length"` // tokens
	HashIDs   []int `json:"hash_ids"`      // of the blocks of the prompt, in order
}

// readTrace reads the first n requests of a trace, which may be compressed with gzip.
func readTrace(path string, n int) ([]traced, error) {
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
	return parseTrace(from, n)
}

// parseTrace reads up to n requests, a JSON object a line.
func parseTrace(from io.Reader, n int) ([]traced, error) {
	var out []traced
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for len(out) < n && lines.Scan() {
		var t traced
		if err := json.Unmarshal(lines.Bytes(), &t); err != nil {
			return nil, fmt.Errorf("trace, line %d: %w", len(out)+1, err)
		}
		if blocks := (t.Input + traceBlock - 1) / traceBlock; t.Input < 1 || t.Output < 1 || blocks != len(t.HashIDs) {
			return nil, fmt.Errorf("trace, line %d: %d blocks for %d tokens, answer of %d", len(out)+1, len(t.HashIDs), t.Input, t.Output)
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

// replay is the workload of a trace whose arrivals are squeezed into the given time. Nearly all prompts of the conversation
// trace have the first block in common, and nothing more.
func replay(trace []traced, span time.Duration) workload {
	return workload{
		name: traceName,
		about: fmt.Sprintf("the first %d requests of the trace, open loop, %.0f s of it in %v; lengths ÷ %d, a block is %d tokens; session: the second block",
			len(trace), float64(trace[len(trace)-1].Timestamp)/1000, span, traceScale, traceBlock/traceScale),
		servers: 8, server: engine(16, 32<<10),
		scripts: func(seed uint64) []script {
			last := max(1, trace[len(trace)-1].Timestamp)
			out := make([]script, len(trace))
			for i, t := range trace {
				out[i] = script{
					session: t.session(i),
					due:     span * time.Duration(t.Timestamp) / time.Duration(last),
					turns:   []turn{{parent: -1, add: []loadgen.Message{user(t.prompt(seed))}, answer: max(1, t.Output/traceScale)}},
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

// session returns what a client would send as its session: the trace does not tell, but the turns of a conversation have the
// second block in common.
func (t *traced) session(i int) string {
	if len(t.HashIDs) < 2 {
		return "single " + strconv.Itoa(i)
	}
	return strconv.Itoa(t.HashIDs[1])
}

// hash returns 64 bits that tell texts apart.
func hash(text string) uint64 { return xxhash.Sum64String(text) }
