// Command readbody is the smallest useful Proxy-Wasm plugin in Go: it holds the request, reads its whole body once, and lets
// it go. It does nothing with what it read. The overhead benchmark takes it as the floor for any plugin that has to know the
// prompt.
//
// With one of these words as its configuration it does a part of what Warmgate's prefix_cache does with a body, and nothing else,
// so that what each part costs inside a gateway can be told: "scan" checks the JSON and finds the prompt, "chain" does so and cuts
// the prompt into blocks, "hash" only hashes as many bytes as the body has.
package main

import (
	"github.com/dchest/siphash"
	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm"
	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm/types"

	"github.com/warmgate/warmgate/lb/prompt"
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

// OnPluginStart learns which part of the work to do.
func (p *plugin) OnPluginStart(int) types.OnPluginStartStatus {
	word, err := proxywasm.GetPluginConfiguration()
	if err != nil {
		proxywasm.LogErrorf("readbody: %v", err)
	}
	var secret [16]byte
	switch string(word) {
	case "scan":
		p.work = func(body []byte) int {
			info, _, _ := prompt.Read(body, true)
			return info.TextBytes
		}
	case "chain":
		c := prompt.NewChainer(secret, blockBytes)
		p.work = func(body []byte) int {
			_, parts, _ := prompt.Read(body, true)
			blocks, _ := c.Chain(body, &parts, "llm", "llm", "")
			return len(blocks)
		}
	case "hash":
		h := siphash.New128(secret[:])
		p.work = func(body []byte) int {
			h.Reset()
			h.Write(body)
			return len(h.Sum(nil))
		}
	default:
		p.work = func(body []byte) int { return len(body) }
	}
	return types.OnPluginStartStatusOK
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
		proxywasm.LogErrorf("readbody: %v", err)
	}
	s.done += s.plugin.work(body)
	return types.ActionContinue
}
