// Command probe is the smallest useful Proxy-Wasm plugin in Go: it holds the request, reads its whole body once, and
// lets it continue. It does nothing with what it read. For the overhead benchmark it is readbody, the floor for any
// plugin that has to know the prompt.
//
// With one of these words as its configuration it does a part of what Warmgate does, and nothing else, so that the cost
// of each part inside a gateway can be measured: "scan" checks the JSON of a body and finds the prompt, "chain" also
// cuts the prompt into blocks, "hash" only hashes as many bytes as the body has. "parse", a line break and a page of
// metrics have it read the page again and again when it starts, and log how long that took.
package main

import (
	"bytes"
	"time"

	"github.com/dchest/siphash"
	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm"
	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm/types"

	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/metrics"
)

func main() {}

func init() { proxywasm.SetVMContext(&vm{}) }

type vm struct{ types.DefaultVMContext }

func (*vm) NewPluginContext(uint32) types.PluginContext { return &plugin{} }

type plugin struct {
	types.DefaultPluginContext
	work func(body []byte) int
}

// blockBytes is the default of prefix.block_bytes.
const blockBytes = 512

// OnPluginStart reads which part of the work to do.
func (p *plugin) OnPluginStart(int) types.OnPluginStartStatus {
	word, err := proxywasm.GetPluginConfiguration()
	if err != nil {
		proxywasm.LogErrorf("probe: %v", err)
	}
	if page, ok := bytes.CutPrefix(word, []byte("parse\n")); ok {
		return parse(page)
	}
	p.work = workOf(string(word))
	return types.OnPluginStartStatusOK
}

// workOf returns what is done with each body.
func workOf(word string) func(body []byte) int {
	var secret [16]byte
	switch word {
	case "scan":
		return func(body []byte) int {
			info, _, _ := prompt.Read(body, true)
			return info.TextBytes
		}
	case "chain":
		c := prompt.NewChainer(secret, blockBytes)
		return func(body []byte) int {
			_, parts, _ := prompt.Read(body, true)
			blocks, _ := c.Chain(body, &parts, "llm", "llm", "")
			return len(blocks)
		}
	case "hash":
		h := siphash.New128(secret[:])
		return func(body []byte) int {
			h.Reset()
			h.Write(body)
			return len(h.Sum(nil))
		}
	}
	return func(body []byte) int { return len(body) }
}

func (p *plugin) NewHttpContext(uint32) types.HttpContext { return &stream{plugin: p} }

type stream struct {
	types.DefaultHttpContext
	plugin *plugin
	done   int // what came of the work, so that it cannot be optimised away
}

// OnHttpRequestHeaders holds the headers until the body is complete.
func (s *stream) OnHttpRequestHeaders(_ int, endOfStream bool) types.Action {
	if endOfStream {
		return types.ActionContinue
	}
	return types.HeaderStopIteration
}

// OnHttpRequestBody reads the body when it is complete.
func (s *stream) OnHttpRequestBody(size int, endOfStream bool) types.Action {
	if !endOfStream {
		return types.DataStopIterationAndBuffer
	}
	body, err := proxywasm.GetHttpRequestBody(0, size)
	if err != nil {
		proxywasm.LogErrorf("probe: %v", err)
	}
	s.done += s.plugin.work(body)
	return types.ActionContinue
}

const (
	batches    = 40      // measured one by one: the gateway compiles what is run often once more while it runs
	batchBytes = 1 << 20 // of each, about
)

// parse reads a page of metrics as Warmgate reads those of engines, and logs the time that each batch took.
func parse(page []byte) types.OnPluginStartStatus {
	parser, err := metrics.New(metrics.AnyEngine)
	if err != nil || len(page) == 0 {
		proxywasm.LogErrorf("probe: %d bytes to parse: %v", len(page), err)
		return types.OnPluginStartStatusFailed
	}
	var load metrics.Snapshot // what came of it, so that it cannot be optimised away
	times := batchBytes/len(page) + 1
	for range batches {
		from := time.Now()
		for range times {
			parser.Parse(page, &load)
		}
		proxywasm.LogWarnf("probe: %d bytes in %d ns", times*len(page), time.Since(from).Nanoseconds())
	}
	if load.Engine == metrics.AnyEngine {
		proxywasm.LogError("probe: the page is of no known engine")
	}
	return types.OnPluginStartStatusOK
}
