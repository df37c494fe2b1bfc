// Command probe is the smallest plugin with a configuration: it answers every request's response with the header
// x-probe set to its configuration without blanks and refuses a configuration that is "bad". It also makes a call that
// Warmgate does not make, adding the header x-probe-added. The harness is tested with it.
package main

import (
	"strings"

	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm"
	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm/types"
)

func main() {}

func init() { proxywasm.SetVMContext(&vm{}) }

//go:wasmexport proxy_abi_version_0_2_1
func abiVersion() {}

type vm struct{ types.DefaultVMContext }

func (*vm) NewPluginContext(uint32) types.PluginContext { return &plugin{} }

type plugin struct {
	types.DefaultPluginContext
	config string
}

func (p *plugin) OnPluginStart(int) types.OnPluginStartStatus {
	config, err := proxywasm.GetPluginConfiguration()
	if err != nil || string(config) == "bad" {
		proxywasm.LogErrorf("probe: refused configuration %q", config)
		return types.OnPluginStartStatusFailed
	}
	p.config = strings.Join(strings.Fields(string(config)), "")
	return types.OnPluginStartStatusOK
}

func (p *plugin) NewHttpContext(uint32) types.HttpContext { return &stream{config: p.config} }

type stream struct {
	types.DefaultHttpContext
	config string
}

func (s *stream) OnHttpResponseHeaders(int, bool) types.Action {
	if err := proxywasm.ReplaceHttpResponseHeader("x-probe", s.config); err != nil {
		proxywasm.LogErrorf("probe: %v", err)
	}
	if err := proxywasm.AddHttpResponseHeader("x-probe-added", "1"); err != nil {
		proxywasm.LogWarnf("probe: not allowed: %v", err)
	}
	return types.ActionContinue
}
