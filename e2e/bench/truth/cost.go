package truth

import (
	"context"
	"errors"
	"strings"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/loadgen"
)

// Cost is what measuring costs: the gateway's CPU time, over that of one that measures nothing, in paired runs.
type Cost struct {
	Whole   bench.Spread `json:"whole"`   // of a request whose answer comes in one piece
	Streams bench.Spread `json:"streams"` // of one with a stream of tokens, each by itself
}

// Configurations of a gateway with the default telemetry, and of one that measures nothing.
var (
	measuring = strings.Replace(config, logged, `"telemetry":{}`, 1)
	silent    = strings.Replace(config, logged, `"telemetry":{"enabled":false}`, 1)
)

// Of each kind, so many requests are sent in a run, by so many connections.
const (
	wholeRequests, wholeConnections   = 9_000, 8
	streamRequests, streamConnections = 1_100, 23
)

// cost measures gateways with and without, of whole answers and of streams.
func cost(ctx context.Context, rounds int) (_ *Cost, err error) {
	body := [2][]byte{}
	for i, stream := range []bool{false, true} {
		text := strings.Repeat("The quick brown fox jumps. ", 151)
		if body[i], err = loadgen.ChatBody(models[0], text, 37, stream); err != nil {
			return nil, err
		}
	}
	var gateways [2][2]*stage // by kind, by configuration
	defer func() {
		for _, of := range gateways {
			for _, st := range of {
				if st != nil {
					err = errors.Join(err, st.close())
				}
			}
		}
	}()
	for kind := range gateways {
		c := engine()
		c.Instant, c.Tuning.DecodeStepMS, c.MaxNumSeqs = kind == 0, 1, 64
		for i, conf := range []string{measuring, silent} {
			if gateways[kind][i], err = start(ctx, c, conf); err != nil {
				return nil, err
			}
		}
	}
	var shares [2]bench.Spread
	for kind := range gateways {
		runs, err := bench.Rounds(rounds, 2, nil, func(_, i int) (float64, error) {
			n, conns := wholeRequests, wholeConnections
			if kind == 1 {
				n, conns = streamRequests, streamConnections
			}
			return gateways[kind][i].spend(ctx, body[kind], n, conns)
		})
		if err != nil {
			return nil, err
		}
		shares[kind] = bench.Ratios(runs[0], runs[1])
	}
	return &Cost{shares[0], shares[1]}, nil
}

// spend returns the CPU time of the gateway per request, in µs.
func (st *stage) spend(ctx context.Context, body []byte, n, connections int) (float64, error) {
	before, err := st.gateway.CPU()
	if err != nil {
		return 0, err
	}
	got, err := loadgen.Raw{
		Addr: st.gateway.Addr(), Request: loadgen.PostRequest("llm", compare.Path, body),
		Connections: connections, Requests: n,
	}.Run(ctx)
	if err == nil && (got.Non200 > 0 || got.Errors > 0) {
		err = errors.New(got.Detail)
	}
	if err != nil {
		return 0, err
	}
	after, err := st.gateway.CPU()
	return float64((after - before).Microseconds()) / float64(got.Requests), err
}
