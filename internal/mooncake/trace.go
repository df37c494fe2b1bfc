// Package mooncake reads traces of requests in the form of Mooncake's (Qin et al.: "Mooncake: A KVCache-centric
// Disaggregated Architecture for LLM Serving", 2024).
package mooncake

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// Block is how many tokens a block of a prompt has, but for the last one, which may have fewer.
const Block = 512

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
	out, err := Parse(from)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return out, nil
}

// Parse reads the requests, a JSON object a line, in order of time. Blank lines are passed over.
func Parse(from io.Reader) ([]Request, error) {
	var out []Request
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	number := 1
	for ; lines.Scan(); number++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		t, err := parseLine(lines.Bytes())
		if err == nil && len(out) > 0 && t.Timestamp < out[len(out)-1].Timestamp {
			err = errors.New("earlier than the previous request")
		}
		if err != nil {
			return nil, fmt.Errorf("trace, line %d: %w", number, err)
		}
		out = append(out, t)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("trace, line %d: %w", number, err)
	}
	if len(out) == 0 {
		return nil, errors.New("trace: no requests")
	}
	return out, nil
}

// maxTokens is how long an answer may be.
const maxTokens = 1 << 30

func parseLine(line []byte) (t Request, err error) {
	if err = json.Unmarshal(line, &t); err != nil {
		return t, err
	}
	switch blocks := (t.Input + Block - 1) / Block; {
	case t.Timestamp < 0:
		return t, fmt.Errorf("timestamp of %d ms", t.Timestamp)
	case t.Input < 1 || t.Output < 1 || t.Output > maxTokens:
		return t, fmt.Errorf("prompt of %d tokens, answer of %d", t.Input, t.Output)
	case blocks != len(t.HashIDs):
		return t, fmt.Errorf("%d blocks for %d tokens, want %d of %d each", len(t.HashIDs), t.Input, blocks, Block)
	}
	return t, nil
}

// Session returns what a client would send as its session: the trace has none, but the turns of a conversation
// have the second block in common.
func (t *Request) Session(i int) string {
	if len(t.HashIDs) < 2 {
		return "single " + strconv.Itoa(i)
	}
	return strconv.Itoa(t.HashIDs[1])
}
