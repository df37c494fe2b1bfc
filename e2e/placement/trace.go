package placement

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/warmgate/warmgate/e2e/loadgen"
)

// A trace in the form of Mooncake's names each block of 512 prompt tokens by an id. A block becomes 16 tokens, which
// is a block of the simulated cache, and all lengths shrink with it.
const (
	traceBlock = 512
	traceScale = 32
)

// Traced is one request of a trace.
type Traced struct {
	Timestamp int   `json:"timestamp"`     // ms
	Input     int   `json:"input_length"`  // tokens
	Output    int   `json:"output_length"` // tokens
	HashIDs   []int `json:"hash_ids"`      // of the blocks of the prompt, in order
}

// ReadTrace reads n requests of a trace behind the first skip, compressed with gzip if its name says so.
func ReadTrace(path string, skip, n int) ([]Traced, error) {
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
	var out []Traced
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for i := 0; len(out) < n && lines.Scan(); i++ {
		if i < skip {
			continue
		}
		var t Traced
		if err := json.Unmarshal(lines.Bytes(), &t); err != nil {
			return nil, fmt.Errorf("trace, line %d: %w", i+1, err)
		}
		out = append(out, t)
	}
	return out, lines.Err()
}

// Replay is the workload of a trace, an open loop at its own pace.
func Replay(name string, trace []Traced) Workload {
	return Workload{Name: name, Servers: 8, Server: Engine(16, 32<<10), Scripts: func(seed uint64) []Script {
		out := make([]Script, len(trace))
		for i := range trace {
			t := &trace[i]
			add := []loadgen.Message{user(t.text(seed))}
			out[i] = Script{
				Session: t.session(i), Due: time.Duration(t.Timestamp-trace[0].Timestamp) * time.Millisecond,
				Turns: []Turn{{Parent: -1, add: add, Answer: max(1, t.Output/traceScale)}},
			}
		}
		return out
	}}
}

// text returns the text of the prompt: that of each block follows from its id and the seed.
func (t *Traced) text(seed uint64) string {
	var b strings.Builder
	for _, id := range t.HashIDs {
		b.WriteString(loadgen.Text(rand.New(rand.NewPCG(seed, uint64(id))), traceBlock/traceScale))
	}
	const bytesPerToken = 4
	return b.String()[:min(b.Len(), max(1, t.Input/traceScale)*bytesPerToken)]
}

// session is what a client would send: the turns of a conversation have the second block in common.
func (t *Traced) session(i int) string {
	if len(t.HashIDs) < 2 {
		return "single " + strconv.Itoa(i)
	}
	return strconv.Itoa(t.HashIDs[1])
}
