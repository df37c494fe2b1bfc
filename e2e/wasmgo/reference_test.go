// Package wasmgo compares Warmgate with wasm-go, the library that Higress's own plugins are made of: its rule matcher
// with the rules of plugin/config, and its host for tests with the artifacts. It is a module of its own, so that
// wasm-go is no dependency of Warmgate, and nothing that is built can link it.
package wasmgo

import (
	"fmt"
	"strings"
	"testing"

	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm/proxytest"
	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm/types"
	"github.com/higress-group/wasm-go/pkg/iface"
	"github.com/higress-group/wasm-go/pkg/matcher"
	"github.com/tidwall/gjson"
)

// The parts of a configuration that apply to a request: a rule by its number, counted from 1, or one of these.
const (
	globalPart = 0
	noPart     = -1
)

// request is what rules are matched with.
type request struct{ route, cluster, authority string }

// reference is a plugin that does nothing but match the rules of its configuration, with Higress's matcher.
type reference struct {
	types.DefaultVMContext
	types.DefaultPluginContext
	types.DefaultHttpContext
	rules matcher.RuleMatcher[int]
	part  int // that applies to the request
	err   error
}

// NewPluginContext implements types.VMContext.
func (r *reference) NewPluginContext(uint32) types.PluginContext { return r }

// NewHttpContext implements types.PluginContext.
func (r *reference) NewHttpContext(uint32) types.HttpContext { return r }

// OnHttpRequestHeaders implements types.HttpContext.
func (r *reference) OnHttpRequestHeaders(int, bool) types.Action {
	part, err := r.rules.GetMatchConfig()
	if r.part, r.err = noPart, err; part != nil {
		r.part = *part
	}
	return types.ActionContinue
}

// wholeConfig is a plugin whose configuration is accepted or refused as a whole, the default of Higress's plugins.
type wholeConfig struct{ iface.PluginContext }

// IsRuleLevelConfigIsolation implements iface.PluginContext.
func (wholeConfig) IsRuleLevelConfigIsolation() bool { return false }

// withoutPluginID returns the configuration without the name of the plugin, which wasm-go's wrapper takes off before it
// reads the rest. The wrapper leaves an empty name where it is; this takes it off, too, as Warmgate does.
func withoutPluginID(text string) string {
	all := gjson.Parse(text)
	if !all.IsObject() || !all.Get(pluginIDKey).Exists() {
		return text
	}
	members := ""
	all.ForEach(func(key, value gjson.Result) bool {
		if key.String() != pluginIDKey {
			members += "," + key.Raw + ":" + value.Raw
		}
		return true
	})
	return "{" + strings.TrimPrefix(members, ",") + "}"
}

// higressChoice returns the part of the configuration that Higress chooses for the request. No part is refused for
// its other keys.
func higressChoice(tb testing.TB, text string, r request) (int, error) {
	tb.Helper()
	ref := &reference{part: noPart}
	rule := 0
	err := ref.rules.ParseRuleConfig(wholeConfig{}, gjson.Parse(withoutPluginID(text)),
		func(_ gjson.Result, part *int) error { *part = globalPart; return nil },
		func(_ gjson.Result, _ int, part *int) error { rule++; *part = rule; return nil })
	if err != nil {
		return noPart, err
	}
	host, reset := proxytest.NewHostEmulator(proxytest.NewEmulatorOption().WithVMContext(ref))
	defer reset()
	for name, value := range map[string]string{"route_name": r.route, "cluster_name": r.cluster} {
		if value == "" { // the host has no such property then
			continue
		}
		if err := host.SetProperty([]string{name}, []byte(value)); err != nil {
			return noPart, fmt.Errorf("%s: %w", name, err)
		}
	}
	host.CallOnRequestHeaders(host.InitializeHttpContext(), [][2]string{{":authority", r.authority}}, true)
	return ref.part, ref.err
}
