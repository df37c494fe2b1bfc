package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/wait"
	"github.com/warmgate/warmgate/internal/vllmsim"
)

const (
	path    = "/v1/chat/completions"
	cluster = "llm"
)

// Config is a configuration of the plugin. Lines are added to lb_config, each as `"key":value`.
func Config(lines ...string) string {
	all := append([]string{`"envoy":{"admin_cluster":"warmgate-admin"}`, `"debug_headers":true`}, lines...)
	return `{"lb_type":"endpoint","lb_policy":"global_least_request","lb_config":{` + strings.Join(all, ",") + `}}`
}

// Options describe a site.
type Options struct {
	Servers int      // model servers at the start
	Addrs   []string // ip:port of the first ones; others take free ports
	Workers int      // Envoy's worker threads, in each gateway; 0 means 2
	Config  string   // of the plugin; "" means Config()
	Module  string   // Wasm module; "" means the shipped one
	Version string   // of Envoy; "" means the default
	Redis   []string // ip:port at which each gateway finds Redis: that many gateways; none means one without

	// Clusters whose endpoints the servers are, and whose names counts are kept under; none means llm.
	Clusters []string
	// Watch, if set, is called with every request to a server's model, and what it returns when that has ended.
	Watch func(*http.Request) (ended func())
	Edit  func(file string, doc *yaml.Node) error // as in harness.Options
}

// Site is a gateway, or several, in front of simulated model servers. Its methods may be called from several
// goroutines.
type Site struct {
	Gateway  *harness.Gateway   // the first
	Gateways []*harness.Gateway // all, the first included
	Workers  int
	// Shared, if set, returns what the gateways' common store counts at each endpoint, and the sum of the leases there.
	Shared func() (totals, leases map[string]int64, err error)

	options Options

	mu      sync.Mutex
	servers []*vllmsim.Server
	dead    map[string]bool // addresses of the killed ones
}

// Step is how long the servers of a site take for a token, at speed 1. It is the same whatever the batch, so that the
// load of one stream does not change the length of another.
const Step = 100 * time.Millisecond

// ServerConfig is a server of a site: it has no limit of requests and needs Step for each token.
func ServerConfig() vllmsim.Config {
	c := vllmsim.DefaultConfig()
	c.MaxNumSeqs, c.MaxQueued, c.NumBlocks = 256, -1, 1<<15
	c.Tuning = vllmsim.NoLatency()
	c.Tuning.DecodeStepMS = float64(Step.Milliseconds())
	return c
}

// Open starts the servers and the gateways. It returns when the plugin balances on every worker. Close ends the site.
func Open(ctx context.Context, o Options) (*Site, error) {
	if o.Workers == 0 {
		o.Workers = 2
	}
	if o.Config == "" {
		o.Config = Config()
	}
	if len(o.Clusters) == 0 {
		o.Clusters = []string{cluster}
	}
	s := &Site{Workers: o.Workers, dead: map[string]bool{}, options: o}
	for i := range o.Servers {
		addr := "127.0.0.1:0"
		if i < len(o.Addrs) {
			addr = o.Addrs[i]
		}
		if _, err := s.AddServer(addr); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	for range max(1, len(o.Redis)) {
		s.Gateways = append(s.Gateways, nil)
		if err := s.StartGateway(ctx, len(s.Gateways)-1); err != nil {
			s.Gateways = s.Gateways[:len(s.Gateways)-1]
			return nil, errors.Join(err, s.Close())
		}
	}
	if err := s.AwaitReady(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// StartGateway starts gateway i, in place of one that has ended.
func (s *Site) StartGateway(ctx context.Context, i int) error {
	o := harness.Options{
		Version: s.options.Version, Workers: s.Workers, Module: s.options.Module, Config: s.options.Config,
		Endpoints: s.Endpoints(),
		Edit:      s.options.Edit,
	}
	if len(s.options.Redis) > 0 {
		o.Redis = s.options.Redis[i]
	}
	g, err := harness.Start(ctx, o)
	if err != nil {
		return err
	}
	s.Gateways[i] = g
	s.Gateway = s.Gateways[0]
	return nil
}

// AddServer starts one more server; "127.0.0.1:0" gives it a free port, the address of a killed one restarts that. The
// gateway learns of a new one by Gateway.PushEndpoints.
func (s *Site) AddServer(addr string) (*vllmsim.Server, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.IndexFunc(s.servers, func(v *vllmsim.Server) bool { return v.Addr() == addr })
	c := ServerConfig()
	c.Index, c.Watch = at, s.options.Watch
	if at < 0 {
		c.Index = len(s.servers)
	}
	srv := vllmsim.New(c)
	if err := srv.Start(addr); err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	if at < 0 {
		s.servers = append(s.servers, srv)
	} else {
		s.servers[at] = srv
	}
	delete(s.dead, srv.Addr())
	return srv, nil
}

// Kill closes a server as if its process had died.
func (s *Site) Kill(srv *vllmsim.Server) error {
	s.mu.Lock()
	s.dead[srv.Addr()] = true
	s.mu.Unlock()
	return srv.Close()
}

// Dead reports whether the server was killed and not started again.
func (s *Site) Dead(srv *vllmsim.Server) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dead[srv.Addr()]
}

// Servers returns the servers, those included that were killed or are not in the cluster any more. The index of a
// server is its x-sim-id.
func (s *Site) Servers() []*vllmsim.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.servers)
}

// Endpoints returns all servers as a list for Gateway.PushEndpoints.
func (s *Site) Endpoints() []harness.Endpoint {
	var list []harness.Endpoint
	for _, srv := range s.Servers() {
		list = append(list, harness.Endpoint{Addr: srv.Addr()})
	}
	return list
}

// SetSpeed changes the speed of all servers, and with it that of the streams that are running.
func (s *Site) SetSpeed(speed float64) error {
	for _, srv := range s.Servers() {
		t := srv.Tuning()
		t.Speed = speed
		if err := srv.SetTuning(t); err != nil {
			return err
		}
	}
	return nil
}

// Close stops the gateways and the servers.
func (s *Site) Close() error {
	var errs []error
	for _, g := range s.Gateways {
		errs = append(errs, g.Stop())
	}
	for _, srv := range s.Servers() {
		errs = append(errs, srv.Close())
	}
	return errors.Join(errs...)
}

// readyTimeout bounds the wait for the plugin to know its endpoints: two polls of the admin page, and a busy machine.
const readyTimeout = harness.Patience

// AwaitReady waits until every server is healthy according to Envoy and the plugin balances on every worker.
func (s *Site) AwaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	return wait.Until(ctx, step, func() error {
		for _, g := range s.Gateways {
			stats, err := g.Stats(ctx, `^cluster\.llm\.membership_`)
			if err != nil {
				return err
			}
			if h, n := stats["cluster.llm.membership_healthy"], stats["cluster.llm.membership_total"]; n == 0 || h < n {
				return fmt.Errorf("audit: %v of %v endpoints are healthy", h, n)
			}
		}
		return s.reasonsAre(ctx, "chosen")
	})
}

// AwaitReason waits until the plugin gives the reason for requests on every worker.
func (s *Site) AwaitReason(ctx context.Context, reason string) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	return wait.Until(ctx, step, func() error { return s.reasonsAre(ctx, reason) })
}

// reasonsAre sends many requests, each on a connection of its own so that every worker gets some.
func (s *Site) reasonsAre(ctx context.Context, want string) error {
	for i := range 8 * s.Workers * len(s.Gateways) {
		a, err := Ask(ctx, s.Gateways[i%len(s.Gateways)].URL()+EchoPath, false, nil)
		if err != nil {
			return err
		}
		if reason := a.Header.Get("x-warmgate-reason"); reason != want {
			return fmt.Errorf("audit: the plugin gave reason %q for a request, want %q", reason, want)
		}
	}
	return nil
}

// EchoPath is where servers answer at once, whatever state they are in.
const EchoPath = "/sim/echo"

// Reply is the outcome of Ask.
type Reply struct {
	Status int
	Header http.Header
	Body   string
	Took   time.Duration
}

// String describes a reply for an error.
func (r Reply) String() string {
	return fmt.Sprintf("status %d, reason %q: %.200s", r.Status, r.Header.Get("x-warmgate-reason"), r.Body)
}

// asking are the clients of Ask, by whether they keep connections.
var asking = map[bool]*http.Client{
	true:  {Timeout: harness.Patience, Transport: &http.Transport{MaxIdleConnsPerHost: 64}},
	false: {Timeout: harness.Patience, Transport: &http.Transport{DisableKeepAlives: true}},
}

// Ask sends a GET request and reads its answer. keep reuses a connection; without it the request may come to any
// worker.
func Ask(ctx context.Context, url string, keep bool, header http.Header) (Reply, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return Reply{}, err
	}
	if header != nil {
		req.Header = header
	}
	start := time.Now()
	resp, err := asking[keep].Do(req)
	if err != nil {
		return Reply{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return Reply{resp.StatusCode, resp.Header, string(body), time.Since(start)}, err
}

// Client returns a client for chat completions at a gateway that keeps the plugin's debug headers. Its connections come
// from the given address, if it is not "".
func Client(g *harness.Gateway, from string, timeout time.Duration) *loadgen.Client {
	return loadgen.NewClient(loadgen.Options{
		URL: g.URL() + path, From: from, Timeout: timeout, Connections: 256,
		KeepHeaders: []string{"x-warmgate-reason", "x-warmgate-host", "x-warmgate-region", waitHeader},
	})
}

// step is the interval of polling for a condition.
const step = 50 * time.Millisecond

// Seed returns the number in the environment variable SEED, with which a run can be repeated, or a new one.
func Seed() uint64 {
	if n, err := strconv.ParseUint(os.Getenv("SEED"), 10, 64); err == nil {
		return n
	}
	return rand.Uint64() >> 32 // short enough to be typed
}
