package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmgate/warmgate/internal/vllmsim"
)

// fleet is what the flags of engine say.
type fleet struct {
	address          string
	port, replicas   int
	models, adapters []string
	answer           tokens
	seed             uint64
	grace            time.Duration
	server           server
}

func newEngine() *cobra.Command {
	e := &fleet{server: usualServer(), answer: tokens(vllmsim.DefaultConfig().OutputTokens)}
	command := &cobra.Command{
		Use:   "engine",
		Short: "Serve simulated model servers, to try a gateway without a GPU",
		Long: `Serve simulated model servers: the API and the metrics of vLLM, with the queue, the KV cache and the times of the
servers of simulate, but in real time. Answers are words without a meaning.

The servers have ports that follow each other. A line for each is printed when all accept connections. An interrupt, as
by Ctrl-C, stops them: requests in progress have the time of --grace to end, or until the next interrupt.`,
		Example: `  warmgate engine --replicas 2
  warmgate engine --port 9000 --speed 4 --model qwen --adapter poet`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return e.run(command) },
	}
	f := command.Flags()
	f.StringVar(&e.address, "listen", "127.0.0.1", "address to listen at; 0.0.0.0: all addresses of the machine")
	f.IntVar(&e.port, "port", 8000, "port of the first server; 0: any free ones")
	f.IntVar(&e.replicas, "replicas", 1, "number of servers")
	f.StringArrayVar(&e.models, "model", nil, "name of the model; may be repeated for further names of it. Without "+
		"this and --adapter a request may name any")
	f.StringArrayVar(&e.adapters, "adapter", nil, "name of a LoRA adapter; may be repeated")
	f.Float64Var(&e.server.Times.Speed, "speed", 1, "by which factor a server is faster than its times say")
	f.Var(&e.answer, "answer", "tokens of an answer, on average, to a request without max_tokens")
	e.server.addFlags(command)
	f.Uint64Var(&e.seed, "seed", 1, "seed of the text of answers and of their length")
	f.DurationVar(&e.grace, "grace", 30*time.Second, "how long requests in progress may take to end")
	return command
}

// run serves until the program is interrupted.
func (e *fleet) run(command *cobra.Command) error {
	if err := e.validate(); err != nil {
		return err
	}
	interrupted, stop := signal.NotifyContext(command.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	servers, err := e.start()
	if err == nil {
		for _, s := range servers {
			fmt.Fprintf(command.OutOrStdout(), "%s serves %s\n", s.URL(), e.name())
		}
		<-interrupted.Done()
		stop() // the next interrupt ends the program
		e.finish(command.ErrOrStderr(), servers)
	}
	for _, s := range servers {
		err = errors.Join(err, s.Close())
	}
	return err
}

// maxReplicas bounds what fits into memory, and into the files that a process may have open.
const maxReplicas = 1000

// validate refuses what there cannot be.
func (e *fleet) validate() error {
	switch {
	case e.address == "": // which would be all of them
		return errors.New("--listen wants an address")
	case e.replicas < 1 || e.replicas > maxReplicas:
		return fmt.Errorf("want 1 server at least, and %d at most", maxReplicas)
	case e.port < 0 || e.port > 0 && e.port+e.replicas-1 > 65535:
		return errors.New("want ports from 1 to 65535, or 0 for any free ones")
	case slices.Contains(slices.Concat(e.models, e.adapters), ""):
		return errors.New("--model and --adapter want a name")
	case e.answer < 1:
		return errors.New("want an --answer of 1 token at least")
	case e.grace < 0:
		return errors.New("--grace must not be negative")
	}
	return e.server.validate()
}

// name is that of the model.
func (e *fleet) name() string {
	if len(e.models) == 0 {
		return vllmsim.DefaultConfig().Model
	}
	return e.models[0]
}

// start starts the servers. It returns those that have started.
func (e *fleet) start() (servers []*vllmsim.Server, err error) {
	cfg := vllmsim.DefaultConfig()
	cfg.Seed, cfg.OutputTokens, cfg.Config, cfg.Tuning.Times = e.seed, int(e.answer), e.server.Config, e.server.Times
	cfg.MaxModelLen = cfg.NumBlocks * cfg.BlockSize
	if cfg.Model = e.name(); len(e.models)+len(e.adapters) > 0 {
		cfg.Adapters, cfg.MaxLoras = append([]string{}, e.adapters...), len(e.adapters)
	}
	cfg.Aliases = e.models[min(1, len(e.models)):]
	for cfg.Index = range e.replicas {
		s := vllmsim.New(cfg)
		err := s.Start(net.JoinHostPort(e.address, strconv.Itoa(e.portOf(cfg.Index))))
		if errors.Is(err, syscall.EADDRINUSE) {
			err = fmt.Errorf("%w; --port names another", err)
		}
		if err != nil {
			return servers, err
		}
		servers = append(servers, s)
	}
	return servers, nil
}

// portOf is the port of a server, 0 for a free one.
func (e *fleet) portOf(index int) int {
	if e.port == 0 {
		return 0
	}
	return e.port + index
}

// finish waits for requests in progress.
func (e *fleet) finish(errs io.Writer, servers []*vllmsim.Server) {
	var n int64
	for _, s := range servers {
		n += s.State().Inflight
	}
	if n > 0 {
		fmt.Fprintf(errs, "Requests in progress: %d; they have %v to end.\n", n, e.grace)
	}
	ctx, cancel := context.WithTimeout(context.Background(), e.grace)
	defer cancel()
	done := make(chan struct{})
	for _, s := range servers {
		go func() {
			s.Finish(ctx)
			done <- struct{}{}
		}()
	}
	for range servers {
		<-done
	}
}
