// Command vllmsim runs simulated vLLM servers in one process.
//
// It prints the addresses of the servers as a JSON array on its first line of output and serves
// until it is interrupted. Each server has its own KV cache, queue and failure mode; see package
// vllmsim for the model and for the /sim/ endpoints that steer it.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/warmgate/warmgate/e2e/vllmsim"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "vllmsim:", err)
		os.Exit(1)
	}
}

// options are the command line.
type options struct {
	n      int
	listen string
	speeds string
	config vllmsim.Config
}

func parse(args []string) (options, error) {
	o := options{config: vllmsim.DefaultConfig()}
	c, t := &o.config, &o.config.Tuning
	fs := flag.NewFlagSet("vllmsim", flag.ContinueOnError)
	fs.IntVar(&o.n, "n", 1, "number of servers")
	fs.StringVar(&o.listen, "listen", "127.0.0.1:0", "address of the first server; with a port, the others take the ports after it")
	fs.StringVar(&o.speeds, "speeds", "1", "speed factors, comma separated; the last one holds for the rest")
	fs.Uint64Var(&c.Seed, "seed", 0, "decides text and length of the answers")
	fs.StringVar(&c.Model, "model", c.Model, "model name")
	fs.IntVar(&c.MaxNumSeqs, "max-num-seqs", c.MaxNumSeqs, "sequences running at once")
	fs.IntVar(&c.MaxQueued, "max-num-queued-reqs", c.MaxQueued, "requests waiting before 503; negative: no limit")
	fs.IntVar(&c.MaxBatchedTokens, "max-num-batched-tokens", c.MaxBatchedTokens, "token budget of a step")
	fs.IntVar(&c.MaxModelLen, "max-model-len", c.MaxModelLen, "longest prompt and answer together, tokens")
	fs.IntVar(&c.BlockSize, "block-size", c.BlockSize, "tokens of a KV block")
	fs.IntVar(&c.NumBlocks, "num-blocks", c.NumBlocks, "KV blocks")
	fs.IntVar(&c.OutputTokens, "output-tokens", c.OutputTokens, "mean answer length when the request sets no limit")
	fs.BoolVar(&c.Instant, "instant", false, "answer at once, without engine")
	fs.Float64Var(&t.PrefillOverheadMS, "prefill-overhead-ms", t.PrefillOverheadMS, "time per prompt")
	fs.Float64Var(&t.PrefillTokenMS, "prefill-token-ms", t.PrefillTokenMS, "time per uncached prompt token")
	fs.Float64Var(&t.DecodeStepMS, "decode-step-ms", t.DecodeStepMS, "time per decode step")
	fs.Float64Var(&t.DecodeSeqMS, "decode-seq-ms", t.DecodeSeqMS, "time per sequence in a decode step")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	if o.n < 1 {
		return o, fmt.Errorf("-n %d: at least one server is needed", o.n)
	}
	return o, t.Validate()
}

// configs returns one configuration per server.
func (o options) configs() ([]vllmsim.Config, error) {
	var speeds []float64
	for _, text := range strings.Split(o.speeds, ",") {
		speed, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("-speeds: %w", err)
		}
		speeds = append(speeds, speed)
	}
	fleet := vllmsim.NewFleet()
	cs := make([]vllmsim.Config, o.n)
	for i := range cs {
		cs[i] = o.config
		cs[i].Index = i
		cs[i].Fleet = fleet
		cs[i].Tuning.Speed = speeds[min(i, len(speeds)-1)]
		if err := cs[i].Tuning.Validate(); err != nil {
			return nil, fmt.Errorf("-speeds: %w", err)
		}
	}
	return cs, nil
}

// address returns where the i-th server listens.
func (o options) address(i int) (string, error) {
	host, port, err := net.SplitHostPort(o.listen)
	if err != nil {
		return "", fmt.Errorf("-listen: %w", err)
	}
	p, err := strconv.Atoi(port)
	if err != nil {
		return "", fmt.Errorf("-listen: %w", err)
	}
	if p != 0 {
		p += i
	}
	return net.JoinHostPort(host, strconv.Itoa(p)), nil
}

// run serves until the context ends; the addresses go to out.
func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	configs, err := o.configs()
	if err != nil {
		return err
	}
	var addrs []string
	for i, c := range configs {
		addr, err := o.address(i)
		if err != nil {
			return err
		}
		s := vllmsim.New(c)
		if err := s.Start(addr); err != nil {
			return err
		}
		defer s.Close()
		addrs = append(addrs, s.Addr())
	}
	if err := json.NewEncoder(out).Encode(addrs); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}
