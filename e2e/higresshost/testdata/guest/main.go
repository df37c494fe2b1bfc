// Command guest is a plugin that runs the script in the request header x-script, and logs what it sees. The test host's
// own tests are written with it.
//
// A script is a list of phases: "headers: stop; body: buffer; end: override 10.0.0.2:8000". A phase is a list of
// operations separated by commas; see ops.go. Phases: headers, body (each frame), end (the last frame, instead of
// body), trailers, response, response_body, response_end, done.
package main

import (
	"strconv"
	"strings"

	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm"
	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm/types"
)

func main() {}

func init() {
	proxywasm.SetPluginContext(func(id uint32) types.PluginContext { return &plugin{id: id} })
}

// generation counts the plugin contexts of this VM, and so distinguishes VMs from contexts.
var generation int

// parked are the streams that wait for a tick.
var parked []uint32

type plugin struct {
	types.DefaultPluginContext
	id     uint32
	config string
	late   bool
}

// OnPluginStart reads the configuration, words separated by blanks: bad, tick=MS, late, trap, name=….
func (p *plugin) OnPluginStart(int) types.OnPluginStartStatus {
	generation++
	data, err := proxywasm.GetPluginConfiguration()
	if err != nil && err != types.ErrorStatusNotFound {
		return types.OnPluginStartStatusFailed
	}
	p.config = string(data)
	for _, word := range strings.Fields(p.config) {
		key, value, _ := strings.Cut(word, "=")
		n, _ := strconv.Atoi(value)
		switch key {
		case "bad":
			return types.OnPluginStartStatusFailed
		case "tick":
			_ = proxywasm.SetTickPeriodMilliSeconds(uint32(n))
		case "late":
			p.late = true
		case "trap":
			panic("trap at start")
		}
	}
	proxywasm.LogInfo("start " + p.config + " generation " + strconv.Itoa(generation))
	return types.OnPluginStartStatusOK
}

func (p *plugin) OnPluginDone() bool {
	proxywasm.LogInfo("plugin done " + p.config)
	return !p.late
}

func (p *plugin) OnTick() {
	proxywasm.LogInfo("tick " + p.config)
	if p.late && strings.Contains(p.config, "finish") {
		proxywasm.PluginDone()
	}
	wake(p.id)
}

// wake resumes every parked stream in its own context and then returns to the plugin's.
func wake(own uint32) {
	for _, id := range parked {
		if err := proxywasm.SetEffectiveContext(id); err != nil {
			proxywasm.LogInfo("gone" + errText(err))
			continue
		}
		_ = proxywasm.ResumeHttpRequest()
	}
	parked = nil
	_ = proxywasm.SetEffectiveContext(own)
}

func (p *plugin) NewHttpContext(id uint32) types.HttpContext {
	return &stream{id: id, config: p.config}
}

type stream struct {
	types.DefaultHttpContext
	id     uint32
	config string
	script string
}

func (s *stream) OnHttpRequestHeaders(n int, end bool) types.Action {
	s.script, _ = proxywasm.GetHttpRequestHeader("x-script")
	return s.run("headers", n, end)
}

func (s *stream) OnHttpRequestBody(n int, end bool) types.Action {
	if end && strings.Contains(s.script, "end:") {
		return s.run("end", n, end)
	}
	return s.run("body", n, end)
}

func (s *stream) OnHttpRequestTrailers(n int) types.Action { return s.run("trailers", n, true) }
func (s *stream) OnHttpResponseTrailers(n int) types.Action {
	return s.run("response_trailers", n, true)
}

func (s *stream) OnHttpResponseHeaders(n int, e bool) types.Action { return s.run("response", n, e) }

func (s *stream) OnHttpResponseBody(n int, end bool) types.Action {
	if end && strings.Contains(s.script, "response_end:") {
		return s.run("response_end", n, end)
	}
	return s.run("response_body", n, end)
}

func (s *stream) OnHttpStreamDone() { s.run("done", 0, true) }

func errText(err error) string {
	if err == nil {
		return ""
	}
	return " (" + err.Error() + ")"
}
