package overhead

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/wait"
)

// Names of the variants.
const (
	none     = "none"
	readbody = "readbody"
	tokens   = "tokens"
	requests = "requests"
	prefix   = "prefix"
)

// Names of the variants that do a part of what prefix does with a body. They are readbody with the same name in its
// configuration.
const (
	scan  = "scan"
	chain = "chain"
	hash  = "hash"
)

const path = "/v1/chat/completions"

// variant is one gateway under measurement.
type variant struct {
	name     string
	gateway  *harness.Gateway
	warmgate bool
}

// measurement is one run of one variant.
type measurement struct {
	cpu  float64 // Envoy's own CPU time per request, µs
	rate float64 // requests per second
	p50  float64 // µs
	p99  float64 // µs
}

func config(unit string) string {
	return `{"lb_type":"endpoint","lb_policy":"global_least_request","lb_config":{"unit":"` + unit +
		`","envoy":{"admin_cluster":"warmgate-admin"}}}`
}

// cacheConfig is that of prefix_cache.
const cacheConfig = `{"lb_type":"endpoint","lb_policy":"prefix_cache","lb_config":{"envoy":{"admin_cluster":"warmgate-admin"}}}`

// startVariants builds the modules and starts the gateways; those that do a part of the work come last, and only if
// they are wanted. It returns the modules' sizes in bytes by variant.
func startVariants(ctx context.Context, up *bench.Upstream, parts bool) ([]*variant, map[string]int64, error) {
	m, err := buildModules(ctx)
	if err != nil {
		return nil, nil, err
	}
	native := harness.Options{Workers: 2, Policy: harness.LeastRequest, Edit: bench.Quiet, Endpoints: endpoints(up, 1)}
	var out []*variant
	for _, s := range m.setups(native, parts) {
		g, err := harness.Start(ctx, s.options)
		if err != nil {
			return out, nil, fmt.Errorf("%s: %w", s.name, err)
		}
		out = append(out, &variant{name: s.name, gateway: g, warmgate: s.options.Policy == harness.Warmgate})
	}
	sizes, err := m.sizes()
	return out, sizes, err
}

// modules are the files of the plugins.
type modules struct{ warmgate, probe string }

func buildModules(ctx context.Context) (m modules, err error) {
	if m.warmgate, err = harness.Wasm(ctx, harness.HostEnvoy); err != nil {
		return m, err
	}
	m.probe, err = bench.Probe(ctx)
	return m, err
}

// setup is how the gateway of a variant is started.
type setup struct {
	name    string
	options harness.Options
}

// setups returns those of all variants, which differ from native in the plugin.
func (m modules) setups(native harness.Options, parts bool) []setup {
	bare, probe := native, native
	bare.NoPlugin = true
	probe.Module = m.probe
	warmgate := func(config string) harness.Options {
		o := native
		o.Module, o.Config, o.Policy = m.warmgate, config, harness.Warmgate
		return o
	}
	out := []setup{
		{none, bare},
		{readbody, probe},
		{tokens, warmgate(config("tokens"))},
		{requests, warmgate(config("requests"))},
		{prefix, warmgate(cacheConfig)},
	}
	if parts {
		for _, name := range []string{scan, chain, hash} {
			probe.Config = name
			out = append(out, setup{name, probe})
		}
	}
	return out
}

// sizes returns the modules' sizes in bytes, by variant.
func (m modules) sizes() (map[string]int64, error) {
	sizes := map[string]int64{}
	for name, file := range map[string]string{readbody: m.probe, "warmgate": m.warmgate} {
		info, err := os.Stat(file)
		if err != nil {
			return nil, err
		}
		sizes[name] = info.Size()
	}
	return sizes, nil
}

func endpoints(up *bench.Upstream, n int) []harness.Endpoint {
	var out []harness.Endpoint
	for _, addr := range up.Addrs(n) {
		out = append(out, harness.Endpoint{Addr: addr})
	}
	return out
}

// setEndpoints gives endpoints to the gateways and waits until they, and the plugin, balance over them.
func setEndpoints(ctx context.Context, variants []*variant, list []harness.Endpoint) error {
	for _, v := range variants {
		if err := v.gateway.PushEndpoints(ctx, list); err != nil {
			return fmt.Errorf("%s: %w", v.name, err)
		}
	}
	return wait.For(ctx, 2500*time.Millisecond) // the plugin reads the list of endpoints every two seconds
}

// measure plays count requests, for each of which Warmgate has to choose an endpoint, and reads Envoy's CPU time before
// and after.
func (v *variant) measure(ctx context.Context, connections, count int, request []byte) (measurement, error) {
	return v.play(ctx, connections, count, request, "chosen")
}

// play is measure with requests that Warmgate has to count under one of the reasons, a regular expression.
func (v *variant) play(ctx context.Context, connections, count int, request []byte,
	reasons string,
) (measurement, error) {
	decided, err := v.decided(ctx, reasons)
	if err != nil {
		return measurement{}, err
	}
	var res loadgen.RawResult
	used, err := v.cpuDuring(func() (err error) {
		res, err = v.load(ctx, connections, count, request)
		return err
	})
	if err != nil {
		return measurement{}, err
	}
	if now, err := v.decided(ctx, reasons); err != nil || v.warmgate && now-decided != float64(count) {
		return measurement{}, fmt.Errorf("%s: Warmgate counted %v of %d requests as %s: a run without decisions "+
			"measures nothing (%w)",
			v.name, now-decided, count, reasons, err)
	}
	us := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
	return measurement{
		cpu: us(used) / float64(count), rate: res.Rate, p50: us(res.Latency.P50), p99: us(res.Latency.P99),
	}, nil
}

// load sends count requests, all of which have to be answered with 200.
func (v *variant) load(ctx context.Context, connections, count int, request []byte) (loadgen.RawResult, error) {
	raw := loadgen.Raw{Addr: v.gateway.Addr(), Request: request, Connections: connections, Requests: count}
	res, err := raw.Run(ctx)
	if err == nil && (res.Non200+res.Errors > 0 || res.Requests != count) {
		err = fmt.Errorf("%d of %d requests failed: %s", res.Non200+res.Errors, count, res.Detail)
	}
	if err != nil {
		return res, fmt.Errorf("%s: %w", v.name, err)
	}
	return res, nil
}

// cpuDuring returns the CPU time that Envoy uses while f runs.
func (v *variant) cpuDuring(f func() error) (time.Duration, error) {
	before, err := v.gateway.CPU()
	if err != nil {
		return 0, err
	}
	if err := f(); err != nil {
		return 0, err
	}
	after, err := v.gateway.CPU()
	return after - before, err
}

// decided returns how many requests the plugin has counted under one of the reasons.
func (v *variant) decided(ctx context.Context, reasons string) (float64, error) {
	if !v.warmgate {
		return 0, nil
	}
	return v.gateway.Sum(ctx, `warmgate_decisions_total.*reason=(`+reasons+`)$`)
}

// calibrate warms the gateways up and returns how many requests one measurement needs, so that it takes long against
// the 10 ms in which the kernel counts CPU time.
func calibrate(ctx context.Context, variants []*variant, s settings, request []byte) (int, error) {
	var count int
	for _, v := range variants {
		warm := 400
		m, err := v.measure(ctx, s.connections, warm, request)
		if err != nil {
			return 0, err
		}
		if v.name == none {
			count = int(float64(s.cpu.Microseconds()) / max(m.cpu, 1))
		}
	}
	return max(count, 400), nil
}

// chatRequest renders a chat completion request whose body has exactly size bytes: a system prompt and turns of about 1
// KiB, as a conversation has.
func chatRequest(size int) []byte {
	system := loadgen.Message{Role: "system", Content: "You are a helpful assistant."}
	body := chatBody{Model: "sim", MaxTokens: 16, Messages: []loadgen.Message{system}}
	const turn = 1000
	text := strings.Repeat("the quick brown fox jumps over ", turn/31+1)
	roles := []string{"user", "assistant"}
	for i := 0; len(body.render())+2*turn < size; i++ {
		body.Messages = append(body.Messages, loadgen.Message{Role: roles[i%2], Content: text[:turn]})
	}
	body.Messages = append(body.Messages, loadgen.Message{Role: "user"})
	rest := max(0, size-len(body.render()))
	body.Messages[len(body.Messages)-1].Content = strings.Repeat(text, rest/len(text)+1)[:rest]
	return loadgen.PostRequest("llm.example.com", path, body.render())
}

type chatBody struct {
	Model     string            `json:"model"`
	MaxTokens int               `json:"max_tokens"`
	Messages  []loadgen.Message `json:"messages"`
}

func (c *chatBody) render() []byte {
	b, err := json.Marshal(c)
	if err != nil {
		panic(err) // strings and numbers always marshal
	}
	return b
}
