package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/warmgate/warmgate/internal/simulate"
	"github.com/warmgate/warmgate/plugin/config"
)

// written is a contender as it was named: a policy of the gateway's own, or a configuration of the plugin.
type written struct {
	name    string
	flag    string // that names it, for errors
	native  bool
	raw     []byte
	gateway config.Host
}

// varied is one value of a key of the configuration.
type varied struct{ key, value string }

// parse returns the contender.
func (w *written) parse() (simulate.Contender, error) {
	if w.native {
		return simulate.OfPolicy(w.name)
	}
	return simulate.ParseContender(w.name, w.raw, w.gateway)
}

// vary returns one of each combination of values for each that is a configuration.
func vary(all []written, keys []string) ([]written, error) {
	for _, text := range keys {
		key, values, ok := strings.Cut(text, "=")
		if !ok || key == "" || values == "" {
			return nil, fmt.Errorf("--vary %s: want a key and values for it, like lb_config.max_inflight=8,16,32", text)
		}
		var next []written
		for _, w := range all {
			if w.native {
				next = append(next, w)
				continue
			}
			for _, value := range strings.Split(values, ",") {
				of, err := w.with(varied{key, value})
				if err != nil {
					return nil, fmt.Errorf("%s --vary %s=%s: %w", w.flag, key, value, err)
				}
				next = append(next, of)
			}
		}
		all = next
	}
	if len(keys) > 0 && !slices.ContainsFunc(all, func(w written) bool { return !w.native }) {
		return nil, errors.New("--vary: want a policy of the plugin, or a --config: the gateway's own have no keys")
	}
	return all, nil
}

// with returns the configuration with another value of a key.
func (w written) with(v varied) (written, error) {
	var top map[string]any
	d := json.NewDecoder(bytes.NewReader(w.raw))
	d.UseNumber()
	if err := d.Decode(&top); err != nil {
		return w, err
	}
	part := top // that is played: see simulate.ParseContender
	if rules, _ := top["_rules_"].([]any); len(rules) == 1 && top["lb_policy"] == nil {
		if rule, ok := rules[0].(map[string]any); ok {
			part = rule
		}
	}
	var value any = v.value
	if json.Valid([]byte(v.value)) {
		value = json.RawMessage(v.value)
	}
	if err := set(part, strings.Split(v.key, "."), value); err != nil {
		return w, err
	}
	raw, err := json.Marshal(top)
	w.raw, w.name = raw, w.name+" "+strings.TrimPrefix(v.key, "lb_config.")+"="+v.value
	w.flag += " --vary " + v.key + "=" + v.value
	return w, err
}

// set sets a member of a member of an object.
func set(object map[string]any, path []string, value any) error {
	for _, name := range path[:len(path)-1] {
		if object[name] == nil {
			object[name] = map[string]any{}
		}
		inner, ok := object[name].(map[string]any)
		if !ok {
			return fmt.Errorf("%s has no keys", name)
		}
		object = inner
	}
	object[path[len(path)-1]] = value
	return nil
}
