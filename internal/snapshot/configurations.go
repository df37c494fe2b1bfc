package snapshot

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/warmgate/warmgate/plugin/config"
)

// dump is what is needed of a gateway's configuration.
type dump struct {
	plugin   []json.RawMessage // the plugin's, without secrets, each once
	policies map[string]string // of clusters, by their names
	shared   []shared
}

// shared is what a configuration says of what gateways share in Redis.
type shared struct {
	scope string // "": each cluster is one
	bytes int    // of the prefix index
}

// configurations reads the gateway's configuration.
func (g *gateway) configurations(ctx context.Context) (*dump, error) {
	var page any
	if err := g.adminJSON(ctx, "/config_dump", mostDump, &page); err != nil {
		return nil, err
	}
	d := &dump{policies: map[string]string{}}
	return d, d.collect(page, 0)
}

// maxNested is how deep the parts are that are looked at.
const maxNested = 64

// collect finds configurations of the plugin, and clusters, anywhere in a part of the dump. Resources may be wrapped in
// many ways, and the same one may be there several times.
func (d *dump) collect(part any, depth int) (err error) {
	switch v := part.(type) {
	case []any:
		for _, item := range v {
			err = errors.Join(err, d.within(item, depth))
		}
	case map[string]any:
		if kind, _ := v["@type"].(string); strings.HasSuffix(kind, "/envoy.config.cluster.v3.Cluster") {
			d.cluster(v)
			return nil
		}
		if vm, ok := v["vm_config"]; ok && v["configuration"] != nil {
			return d.wasm(v["configuration"], vm)
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			err = errors.Join(err, d.within(v[key], depth))
		}
	}
	return err
}

func (d *dump) within(item any, depth int) error {
	if depth >= maxNested {
		return nil
	}
	return d.collect(item, depth+1)
}

// cluster notes how the gateway itself balances a cluster.
func (d *dump) cluster(c map[string]any) {
	name, _ := c["name"].(string)
	policy, _ := c["lb_policy"].(string)
	if policy == "" {
		policy = "ROUND_ROBIN"
	}
	if list, ok := c["load_balancing_policy"].(map[string]any); ok { // which Envoy prefers
		if policies, ok := list["policies"].([]any); ok && len(policies) > 0 {
			first, _ := policies[0].(map[string]any)
			extension, _ := first["typed_extension_config"].(map[string]any)
			if kind, _ := extension["name"].(string); kind != "" {
				policy = kind[strings.LastIndexByte(kind, '.')+1:]
			}
		}
	}
	d.policies[name] = strings.ToLower(policy)
}

// wasm takes the configuration of a Wasm plugin, if it is this one.
func (d *dump) wasm(configuration, vm any) error {
	raw := configuration
	if wrapped, ok := raw.(map[string]any); ok && wrapped["@type"] != nil {
		raw = wrapped["value"] // of a StringValue, or a Struct
	}
	text, ok := raw.(string)
	if !ok { // of a value that was just decoded
		encoded, _ := json.Marshal(raw)
		text = string(encoded)
	}
	where, _ := json.Marshal(vm)
	if !strings.Contains(text, `"lb_`) && !bytes.Contains(where, []byte("warmgate")) {
		return nil
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var value map[string]any
	if err := decoder.Decode(&value); err != nil {
		return errors.New("one of the plugin is not a JSON object")
	}
	clean, err := json.Marshal(withoutSecrets(value, ""))
	if err != nil {
		return err
	}
	for _, other := range d.plugin {
		if bytes.Equal(other, clean) {
			return nil
		}
	}
	d.plugin = append(d.plugin, clean)
	d.note(text)
	return nil
}

// note notes what a configuration says of Redis.
func (d *dump) note(text string) {
	host := config.Higress
	if strings.Contains(text, `"envoy"`) {
		host = config.Envoy
	}
	set, _ := config.Parse([]byte(text), host) // what of it is wrong is not the question here
	if set == nil {
		return
	}
	for _, c := range set.All() {
		d.shared = append(d.shared, shared{c.Redis.Scope, c.Prefix.IndexMemory.Remote})
	}
}
