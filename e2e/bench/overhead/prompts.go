package overhead

import (
	"context"
	"fmt"

	"github.com/warmgate/warmgate/e2e/bench"
)

// split is the cost of a request with a prompt under prefix_cache, in µs of Envoy's CPU time, by its parts. Each figure
// is a difference between two variants in the same round, median over the rounds.
type split struct {
	KiB   int          `json:"kib"`
	Body  bench.Spread `json:"body_us"`  // any plugin that holds the request and reads its body: readbody - none
	Check bench.Spread `json:"check_us"` // one pass over the JSON, which finds the prompt: scan - readbody
	Walk  bench.Spread `json:"walk_us"`  // finding what of the prompt is text, without its hashing: chain - scan - hash + readbody
	Hash  bench.Spread `json:"hash_us"`  // hashing as many bytes: hash - readbody
	Rest  bench.Spread `json:"rest_us"`  // looking up, choosing, counting and noting, nearly all host calls: prefix - chain
	All   bench.Spread `json:"all_us"`   // prefix - none
	// Shares of All.
	JSON  float64 `json:"json_share"` // Check and Walk
	Hashy float64 `json:"hash_share"`
	Calls float64 `json:"host_calls_share"` // Body and Rest
}

// splitOf divides the cost of prefix.
func splitOf(kib int, runs map[string][]measurement) split {
	diff := func(terms ...string) bench.Spread { return difference(runs, terms...) }
	s := split{
		KiB: kib, Body: diff(readbody, none), Check: diff(scan, readbody),
		Hash: diff(hash, readbody), Rest: diff(prefix, chain),
		Walk: diff(chain, scan, readbody, hash), All: diff(prefix, none),
	}
	s.JSON = (s.Check.Median + s.Walk.Median) / s.All.Median
	s.Hashy = s.Hash.Median / s.All.Median
	s.Calls = (s.Body.Median + s.Rest.Median) / s.All.Median
	return s
}

// measurePrompts measures what the parts of reading a prompt cost.
func (st *stage) measurePrompts(ctx context.Context) ([]split, error) {
	variants := st.named(none, readbody, scan, chain, hash, prefix)
	var out []split
	for _, kib := range st.rep.settings.bodies {
		runs, err := st.measureBodies(ctx, variants, kib)
		if err != nil {
			return nil, err
		}
		out = append(out, splitOf(kib, runs))
		fmt.Printf("%3d KiB prompts: prefix costs %s µs\n", kib, out[len(out)-1].All.Format("%.0f"))
	}
	return out, nil
}

func promptsTable(splits []split) *bench.Table {
	t := &bench.Table{Head: []string{
		"prefix, of a request: median (min..max)", "CPU µs over none", "body into " +
			"the plugin", "JSON checked", "JSON walked", "hashed",
		"chosen, counted, recorded", "JSON, %", "hashing, %", "host calls, %",
	}}
	percent := func(share float64) string { return fmt.Sprintf("%.0f", 100*share) }
	for _, s := range splits {
		t.Add(fmt.Sprintf("%d KiB", s.KiB), s.All.Format("%.0f"), s.Body.Format("%.0f"), s.Check.Format("%.0f"),
			s.Walk.Format("%.0f"),
			s.Hash.Format("%.0f"), s.Rest.Format("%.0f"), percent(s.JSON), percent(s.Hashy), percent(s.Calls))
	}
	return t
}
