// Package mooncake reads traces of requests in the form of Mooncake's, and makes prompts of them.
package mooncake

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

	"github.com/warmgate/warmgate/e2e/loadgen"
)

// A trace names each block of 512 prompt tokens by an id. It is replayed at this scale: a block becomes 16 tokens,
// which is a block of the simulated cache, and all lengths shrink with it.
const (
	Block = 512 // tokens of the trace in a block
	Scale = 32  // tokens of the trace that become one
)

// Request is one request of a trace.
type Request struct {
	Timestamp int   `json:"timestamp"`     // ms
	Input     int   `json:"input_length"`  // tokens
	Output    int   `json:"output_length"` // tokens
	HashIDs   []int `json:"hash_ids"`      // of the blocks of the prompt, in order
}

// Read reads a trace, which may be compressed with gzip.
func Read(path string) ([]Request, error) {
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
	return Parse(from)
}

// Parse reads the requests, a JSON object a line, in order of time.
func Parse(from io.Reader) ([]Request, error) {
	var out []Request
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		t, err := parseLine(lines.Bytes())
		if err == nil && len(out) > 0 && t.Timestamp < out[len(out)-1].Timestamp {
			err = errors.New("earlier than the previous request")
		}
		if err != nil {
			return nil, fmt.Errorf("trace, line %d: %w", len(out)+1, err)
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

func parseLine(line []byte) (t Request, err error) {
	if err = json.Unmarshal(line, &t); err != nil {
		return t, err
	}
	if blocks := (t.Input + Block - 1) / Block; t.Input < 1 || t.Output < 1 || blocks != len(t.HashIDs) {
		return t, fmt.Errorf("%d blocks for %d tokens, answer of %d", len(t.HashIDs), t.Input, t.Output)
	}
	return t, nil
}

// Text returns the text of the prompt: that of each block follows from its id and the seed.
func (t *Request) Text(seed uint64) string {
	var b strings.Builder
	for _, id := range t.HashIDs {
		b.WriteString(loadgen.Text(rand.New(rand.NewPCG(seed, uint64(id))), Block/Scale))
	}
	const bytesPerToken = 4 // of loadgen.Text
	return b.String()[:max(1, t.Input/Scale)*bytesPerToken]
}

// Session returns what a client would send as its session: the trace has none, but the turns of a conversation
// have the second block in common.
func (t *Request) Session(i int) string {
	if len(t.HashIDs) < 2 {
		return "single " + strconv.Itoa(i)
	}
	return strconv.Itoa(t.HashIDs[1])
}
