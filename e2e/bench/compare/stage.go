// Package compare plays the same traffic against the same simulated servers behind one running gateway, under one
// balancing policy after another.
package compare

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/wait"
	"github.com/warmgate/warmgate/internal/vllmsim"
)

// Path is the route that traffic is sent to.
const Path = "/v1/chat/completions"

// DebugHeaders are the response headers by which Warmgate explains its decision.
var DebugHeaders = []string{hostHeader, reasonHeader, "x-warmgate-load", MatchHeader, RegionHeader}

// MatchHeader has the share of the prompt, 0 to 1, that Warmgate expects to be cached where it sends it.
const MatchHeader = "x-warmgate-match"

// RegionHeader has the region that Warmgate has forwarded the request to, whose gateway chose the endpoint.
const RegionHeader = "x-warmgate-region"

// Options describe a stage.
type Options struct {
	Gateways int                  // gateways in front of the same servers; 0 means 1
	Workers  int                  // Envoy's worker threads, in each gateway
	Servers  []vllmsim.Config     // their MaxNumSeqs must be set
	Slots    []int                // requests that each server runs at once; nil = its MaxNumSeqs
	Redis    string               // ip:port of a Redis server that all gateways have a tunnel to; "" = none
	First    Policy               // policy at the start
	Seen     func(loadgen.Sample) // is called with each sample as it ends, by several goroutines; may be nil

	// For stages that are part of something larger:
	Fleet  *vllmsim.Fleet // watches the servers; nil = one of this stage
	Index  int            // of the first server in the fleet; the others follow
	Behind []string       // ip:port of servers that are behind the gateways as well, and are not the stage's
	// Edit changes each file of the run folder before a policy's edits, see [harness.Options]; nil = none
	Edit func(file string, doc *yaml.Node) error
}

// Stage is one gateway, or several, in front of simulated servers.
type Stage struct {
	Gateway  *harness.Gateway   // the first
	Gateways []*harness.Gateway // all, the first included
	Servers  []*vllmsim.Server
	Fleet    *vllmsim.Fleet
	Seen     func(loadgen.Sample) // Options.Seen
	edits    atomic.Pointer[edits]
	further  func(file string, doc *yaml.Node) error // Options.Edit
	module   string
	slots    []int // requests that each server runs at once
	behind   []harness.Endpoint
	used     int               // of those behind, the first
	clients  []*loadgen.Client // one for each gateway
}

// shipped builds Warmgate's module, once.
var shipped = sync.OnceValues(func() (string, error) { return harness.Wasm(context.Background(), harness.HostEnvoy) })

// On calls play with a stage.
func On(ctx context.Context, o Options, play func(*Stage) error) error {
	stage, err := NewStage(ctx, o)
	if err != nil {
		return err
	}
	return errors.Join(play(stage), stage.Close())
}

// NewStage starts the servers and the gateways. Close ends them.
func NewStage(ctx context.Context, o Options) (*Stage, error) {
	module, err := shipped()
	if err != nil {
		return nil, err
	}
	s := &Stage{Fleet: o.Fleet, Seen: o.Seen, module: module, further: o.Edit}
	if s.Fleet == nil {
		s.Fleet = vllmsim.NewFleet()
	}
	for i, cfg := range o.Servers {
		cfg.Index, cfg.Fleet = o.Index+i, s.Fleet
		s.slots = append(s.slots, cfg.MaxNumSeqs)
		srv := vllmsim.New(cfg)
		if err := srv.Start("127.0.0.1:0"); err != nil {
			return nil, errors.Join(fmt.Errorf("compare: %w", err), s.Close())
		}
		s.Servers = append(s.Servers, srv)
		s.behind = append(s.behind, harness.Endpoint{Addr: srv.Addr()}) // equal weights: the speed is not configured
	}
	for _, addr := range o.Behind {
		s.behind = append(s.behind, harness.Endpoint{Addr: addr})
	}
	s.used = len(s.behind)
	if o.Slots != nil {
		s.slots = o.Slots
	}
	if err := s.prepare(o.First); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	for range max(1, o.Gateways) {
		if err := s.addGateway(ctx, o); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	s.Gateway = s.Gateways[0]
	return s, nil
}

func (s *Stage) addGateway(ctx context.Context, o Options) error {
	g, err := harness.Start(ctx, harness.Options{
		Workers: o.Workers, Endpoints: s.behind, Policy: o.First.Cluster,
		NoPlugin: o.First.Plugin == "", Module: s.module, Config: o.First.Plugin, Redis: o.Redis, Edit: s.edit,
	})
	if err != nil {
		return err
	}
	s.Gateways = append(s.Gateways, g)
	s.clients = append(s.clients, loadgen.NewClient(loadgen.Options{
		URL: g.URL() + Path, KeepHeaders: DebugHeaders, Timeout: 2 * time.Minute, Seen: o.Seen,
	}))
	return s.awaitHealthy(ctx, g)
}

// Use makes the gateways use the first n of the servers behind them, until it is called again. It returns when they are
// healthy.
func (s *Stage) Use(ctx context.Context, n int) error {
	if n == s.used {
		return nil
	}
	s.used = n
	for _, g := range s.Gateways {
		if err := g.PushEndpoints(ctx, s.behind[:n]); err != nil {
			return err
		}
		if err := s.awaitHealthy(ctx, g); err != nil {
			return err
		}
	}
	return nil
}

// awaitHealthy waits until the gateway counts every server as healthy: a comparison must not begin with Envoy in panic
// mode.
func (s *Stage) awaitHealthy(ctx context.Context, g *harness.Gateway) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return wait.Until(ctx, 20*time.Millisecond, func() error {
		healthy, err := g.Sum(ctx, `^cluster\.llm\.membership_healthy$`)
		if err == nil && int(healthy) != s.used {
			err = fmt.Errorf("compare: %v of %d servers are healthy", healthy, s.used)
		}
		return err
	})
}

// Close stops the gateways and the servers.
func (s *Stage) Close() error {
	var errs []error
	for _, c := range s.clients {
		c.Close()
	}
	for _, g := range s.Gateways {
		errs = append(errs, g.Stop())
	}
	for _, srv := range s.Servers {
		errs = append(errs, srv.Close())
	}
	return errors.Join(errs...)
}

// Behind returns the URLs of the servers behind the gateways.
func (s *Stage) Behind() []string {
	var urls []string
	for _, e := range s.behind[:s.used] {
		urls = append(urls, "http://"+e.Addr)
	}
	return urls
}

// Client returns the client that sends to the first gateway.
func (s *Stage) Client() *loadgen.Client { return s.clients[0] }

// Inflight returns how many requests each server has now, from its own count.
func (s *Stage) Inflight() []int {
	out := make([]int, len(s.Servers))
	for i, srv := range s.Servers {
		out[i] = int(srv.State().Inflight)
	}
	return out
}
