package higresshost

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/warmgate/warmgate/e2e/fakehost"
	"github.com/warmgate/warmgate/plugin/process/processtest"
)

// New starts a gateway: the module is loaded, the configuration tried in a canary VM and then given to the main thread
// and to each worker. The error is ErrConfigRejected, or why the module does not load.
func New(opts Options) (*Gateway, error) {
	opts = opts.withDefaults()
	g := &Gateway{
		opts: opts, ctx: context.Background(),
		canary: map[tried]bool{}, record: record{calls: map[Call]*CallStat{}},
		shared: processtest.KV{Cells: map[string]processtest.Cell{}},
		redis:  map[string]*RedisCluster{}, alive: map[*vm]bool{},
	}
	g.record.now, g.queues.post = g.Now, g.post
	g.clock, g.metrics = fakehost.NewClock(&g.passed), fakehost.NewMetrics(g.violate)
	g.host = fakehost.Host{
		Clusters:       map[string]*fakehost.Cluster{},
		StrictOverride: opts.Profile.strictOverride(), StaleBuffer: opts.Profile.staleBuffer(), LogLast: opts.LogLast,
		BufferLimit: opts.BufferLimit, Cluster: opts.Cluster, ClusterHeader: opts.ClusterHeader,
		Drive: g.drive, Violate: g.violate,
	}
	g.main = &Worker{gw: g, name: "main"}
	for i := range opts.Workers {
		g.workers = append(g.workers, &Worker{gw: g, name: fmt.Sprintf("worker %d", i)})
	}
	if err := g.PushCode(opts.Wasm, opts.Config); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

// Start is New for a test: it fails the test on an error, and at the test's end closes the gateway and fails the test
// if any violation is left.
func Start(tb testing.TB, opts Options) *Gateway {
	tb.Helper()
	g, err := New(opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		for _, v := range g.violations {
			tb.Errorf("violation: %s", v)
		}
		if err := g.Close(); err != nil {
			tb.Error(err)
		}
	})
	return g
}

// PushCode gives new code and configuration: new VMs take the new streams, the old ones end with their last stream.
func (g *Gateway) PushCode(wasm []byte, config string) error {
	code, err := g.load(wasm)
	if err != nil {
		return err
	}
	g.drive(func() { err = g.push(code, config) })
	return err
}

// load compiles a module and checks that this host can run it.
func (g *Gateway) load(wasm []byte) (*code, error) {
	abi, err := ModuleABI(wasm, g.opts.Profile)
	if err != nil {
		return nil, err
	}
	runtime, err := machine()
	if err != nil {
		return nil, err
	}
	compiled, err := compile(g.ctx, runtime, wasm)
	if err != nil {
		return nil, fmt.Errorf("higresshost: compile: %w", err)
	}
	for _, f := range compiled.ImportedFunctions() {
		module, name, _ := f.Import()
		if module == "env" && !offers(g.opts.Profile, name) {
			return nil, fmt.Errorf("higresshost: the module imports env.%s, which %s does not offer", name,
				g.opts.Profile)
		}
	}
	return &code{abi: abi, compiled: compiled, runtime: runtime}, nil
}

// machine runs the VMs of all gateways of this process.
var machine = sync.OnceValues(func() (wazero.Runtime, error) {
	ctx := context.Background()
	r := wazero.NewRuntime(ctx)
	_, err := wasi_snapshot_preview1.Instantiate(ctx, r)
	return r, errors.Join(err, offerHostCalls(ctx, r))
})

// modules are those that were compiled, each once, which takes seconds: of func() (wazero.CompiledModule, error), by
// their first bytes' addresses.
var modules sync.Map

func compile(ctx context.Context, r wazero.Runtime, wasm []byte) (wazero.CompiledModule, error) {
	once, _ := modules.LoadOrStore(&wasm[0], sync.OnceValues(func() (wazero.CompiledModule, error) {
		return r.CompileModule(ctx, wasm)
	}))
	return once.(func() (wazero.CompiledModule, error))()
}

// hostCalls lists everything that Higress offers.
var hostCalls = slices.Concat(generalCalls, headerCalls, bufferCalls, streamCalls, sharedCalls, queueCalls, metricCalls,
	calloutCalls, higressCalls, otherCalls)

// offers reports whether a host of that profile has the import, given with its "proxy_".
func offers(p Profile, name string) bool {
	for _, c := range hostCalls {
		if "proxy_"+c.name == name {
			return p.higress() || !c.higress
		}
	}
	return false
}

// offerHostCalls makes all of them known to the modules of a runtime.
func offerHostCalls(ctx context.Context, r wazero.Runtime) error {
	b := r.NewHostModuleBuilder("env")
	for _, c := range hostCalls {
		params := make([]api.ValueType, len(c.sig))
		for i, letter := range c.sig {
			params[i] = api.ValueTypeI32
			if letter == 'I' {
				params[i] = api.ValueTypeI64
			}
		}
		b.NewFunctionBuilder().
			WithGoModuleFunction(c.handler(), params, []api.ValueType{api.ValueTypeI32}).
			Export("proxy_" + c.name)
	}
	_, err := b.Instantiate(ctx)
	return err
}
