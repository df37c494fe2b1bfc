// Command parsepage is a Proxy-Wasm plugin that reads the page of metrics which is its configuration, again and again, as Warmgate reads
// those of engines, and writes to the log how long it took. It does nothing with requests.
package main

import (
	"time"

	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm"
	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm/types"

	"github.com/warmgate/warmgate/metrics"
)

func main() {}

func init() { proxywasm.SetVMContext(&vm{}) }

type vm struct{ types.DefaultVMContext }

func (*vm) NewPluginContext(uint32) types.PluginContext { return &plugin{} }

type plugin struct {
	types.DefaultPluginContext
	load metrics.Snapshot // what came of it, so that it cannot be optimised away
}

const (
	batches    = 40      // measured one by one: the gateway compiles what is run often once more while it runs
	batchBytes = 1 << 20 // of each, about
)

// OnPluginStart measures.
func (p *plugin) OnPluginStart(int) types.OnPluginStartStatus {
	page, err := proxywasm.GetPluginConfiguration()
	if err != nil || len(page) == 0 {
		proxywasm.LogErrorf("parsepage: no page: %v", err)
		return types.OnPluginStartStatusFailed
	}
	parser, err := metrics.New(metrics.AnyEngine)
	if err != nil {
		proxywasm.LogErrorf("parsepage: %v", err)
		return types.OnPluginStartStatusFailed
	}
	times := batchBytes/len(page) + 1
	for range batches {
		from := time.Now()
		for range times {
			parser.Parse(page, &p.load)
		}
		proxywasm.LogWarnf("parsepage: %d bytes in %d ns", times*len(page), time.Since(from).Nanoseconds())
	}
	if p.load.Engine == metrics.AnyEngine {
		proxywasm.LogError("parsepage: the page is of no known engine")
	}
	return types.OnPluginStartStatusOK
}
