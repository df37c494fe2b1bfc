package vm

import (
	"time"

	"github.com/warmgate/warmgate/plugin/config"
)

// Plugin is one configuration of the plugin in a VM: what Proxy-Wasm calls a plugin context. Several may be in force in
// one VM.
type Plugin struct {
	VM             *VM
	name           string          // of the plugin, which may have several configurations in force
	Set            *config.Set     // nil: refused, without a last good one
	ClusterHeaders []string        // by which routes take clusters, as far as the refused one names them
	apis           config.APIPaths // of admission APIs in one that was refused as a whole
	origin         origin          // of a configuration that was refused in part, else empty
	Ticker
	calls  int             // made in its name and not answered yet
	doneAt time.Duration   // when the gateway was done with it, 0 before
	warned map[string]bool // clusters for which a too small prefix index was logged
	added  []addedTarget   // targets that are to be asked whether they are open
}

// NewPlugin returns a configuration that has not been read yet, for a context of the gateway.
func (v *VM) NewPlugin(context uint32) *Plugin {
	return &Plugin{VM: v, Ticker: Ticker{context: context}}
}

// OnStart puts the configuration that read returns, with the name of its plugin, in force in place of p. It returns nil
// when the gateway should refuse it and keep the previous one.
func (p *Plugin) OnStart(read func() (name string, raw []byte)) (started *Plugin) {
	v := p.VM
	v.Callback(p.context, "the start of a configuration", func() {
		name, raw := read()
		next, ok := v.configure(name, raw, v.Kind)
		if !ok {
			return
		}
		v.configs.remove(p) // the gateway may start a context again
		next.context = p.context
		v.Ticks.Set(&next.Ticker, v.Clock(), firstTick)
		started = next
	}, nil)
	return started
}

// OnDone is called when the gateway is about to drop the configuration. It returns false when the gateway must keep it
// until Gateway.PluginDone is called.
func (p *Plugin) OnDone() bool {
	done := true
	p.VM.Callback(p.context, "the end of a configuration", func() { done = p.done() }, nil)
	return done
}

// OnTick does what is due.
func (p *Plugin) OnTick() {
	p.VM.Callback(p.context, "a tick", func() { p.VM.tick(p) }, nil)
}

// OnWake is called with the messages of other VMs that have granted endpoints to requests that wait in this one.
func (p *Plugin) OnWake(messages [][]byte) {
	p.VM.Callback(p.context, "a wake-up", func() { p.VM.wake(messages) }, nil)
}

// IsInForce implements clusters.PromptUser.
func (p *Plugin) IsInForce() bool { return p.VM.configs.contains(p) }

// WarnsFirst implements clusters.PromptUser.
func (p *Plugin) WarnsFirst(cluster string) bool {
	first := !p.warned[cluster]
	p.warned[cluster] = true
	return first
}

// HasAPI reports whether there is an API of the plugin's own, in force or refused.
func (p *Plugin) HasAPI() bool {
	return len(p.apis) > 0 || p.Set != nil && (p.Set.HasAPI() || p.Set.HasInspect() || len(p.Set.RefusedAPIs()) > 0)
}

// IsRefusedAPI reports whether the path of a request is one of an API whose configuration is refused.
func (p *Plugin) IsRefusedAPI(path string) bool {
	return p.apis.Contain(path) || p.Set != nil && p.Set.RefusedAPIs().Contain(path)
}

// Calls out are made in the name of a configuration: the gateway answers them through it, and drops those whose
// configuration it has dropped.

// maxLinger is how long a configuration that the gateway is done with may be kept for the answers to its calls.
const maxLinger = 10 * time.Second

// Context returns the gateway's context of the configuration.
func (p *Plugin) Context() uint32 { return p.context }

// Answer returns the function in which to handle the answer to a call that is made in the name of the configuration.
func (p *Plugin) Answer(what string) func(f func()) {
	return func(f func()) {
		p.VM.Callback(p.context, what, func() { p.handleAnswer(f) }, nil)
	}
}

// CallSent notes that such a call was sent.
func (p *Plugin) CallSent() { p.calls++ }

func (p *Plugin) handleAnswer(f func()) {
	p.calls--
	defer p.dropIfDone()
	f()
}

// done is called when the gateway is done with the configuration. It returns false when the gateway must keep it for a
// while.
func (p *Plugin) done() bool {
	p.VM.configs.remove(p)
	p.VM.Stats.Pin(p.VM.configs.priced())
	p.VM.setInForce()
	p.VM.Stats.Flush() // there may be no other tick
	if p.calls == 0 {
		return true
	}
	p.doneAt = p.VM.ReadClock()
	return false
}

// dropIfDone lets the gateway drop a configuration that was kept for the answers to its calls.
func (p *Plugin) dropIfDone() {
	if p.doneAt == 0 || p.calls > 0 && p.VM.Clock()-p.doneAt < maxLinger {
		return
	}
	p.doneAt = 0
	p.VM.GW.PluginDone(p.context)
}
