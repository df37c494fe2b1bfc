package overhead

import (
	"context"
	"fmt"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/lb/prompt/prompttest"
)

const (
	// hostileBody is the length of hostile bodies in bytes: as much as is inspected, unless it is configured otherwise.
	hostileBody = 256 << 10
	// hostileLimit is the limit of the cost of one, in µs.
	hostileLimit = 2000
)

// hostile is the cost of a request whose body was made to be expensive.
type hostile struct {
	Name string       `json:"body"`
	CPU  bench.Spread `json:"us"` // Envoy's CPU time with prefix over readbody, µs
}

// measureHostile measures what hostile bodies cost with prefix_cache beyond being read.
func (st *stage) measureHostile(ctx context.Context) ([]hostile, error) {
	const count = 400 // requests resolve 25 µs
	variants, s := st.named(readbody, prefix), st.rep.settings
	var out []hostile
	for _, b := range prompttest.Hostile(hostileBody) {
		request := loadgen.PostRequest("llm.example.com", path, b.JSON)
		runs, err := st.rounds(variants, func(v *variant) (measurement, error) {
			return v.play(ctx, s.connections, count, request, "chosen|body_malformed|body_ambiguous")
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", b.Name, err)
		}
		out = append(out, hostile{b.Name, difference(runs, prefix, readbody)})
		fmt.Printf("hostile: %s: %s µs\n", b.Name, out[len(out)-1].CPU.Format("%.0f"))
	}
	return out, nil
}

// worst returns the hostile body that costs most.
func worst(list []hostile) (most hostile) {
	for _, h := range list {
		if h.CPU.Median >= most.CPU.Median {
			most = h
		}
	}
	return most
}

func hostileTable(list []hostile) *bench.Table {
	t := &bench.Table{Head: []string{"hostile body of 256 KiB: median (min..max)", "CPU µs over readbody"}}
	for _, h := range list {
		t.Add(h.Name, h.CPU.Format("%.0f"))
	}
	return t
}
