package config

import (
	"slices"
	"strings"

	"github.com/warmgate/warmgate/lb/setting"
)

// This file reads configurations of Higress's ai-endpoint-picker: the plugin that its controller binds to the routes of
// an InferencePool by a rule with nothing but their names. Such a rule stands for the best that needs no settings.

// picker is what the keys of ai-endpoint-picker say that have an equal here. Only ratios of its weights matter.
type picker struct {
	queue, kvCache, prefix, lora, inflight, failure float64 // weights of what endpoints are compared by

	blockTokens int // tokens of a block of a prompt
	cacheBlocks int // blocks that an engine's KV cache holds
	maxBody     int // bytes of the longest body that is read

	number float64 // these three take what is only checked
	whole  int
	text   string
}

// defaultPicker has the weights of ai-endpoint-picker when none are written.
var defaultPicker = picker{queue: 2, kvCache: 2, prefix: 3, inflight: 1}

const (
	maxPickerWeight = 1e6
	pickerTokens    = 4  // bytes of a token, as ai-endpoint-picker estimates
	pickerPage      = 16 // tokens of a block of a KV cache, where the engine does not say
)

// pickerKeys are the keys of ai-endpoint-picker, with the defaults and bounds that it has. NoEffect is why one has none
// here.
var pickerKeys = []setting.Key{
	pickerChoice("profile", "default", func(p *picker) any { return &p.text }, "default", "balanced"),
	pickerChoice("picker.mode", "max-score", func(p *picker) any { return &p.text }, "max-score"),
	pickerWeight("weights.queue", "2", func(p *picker) any { return &p.queue }),
	pickerWeight("weights.kvCache", "2", func(p *picker) any { return &p.kvCache }),
	pickerWeight("weights.prefixCache", "3", func(p *picker) any { return &p.prefix }),
	pickerWeight("weights.loraAffinity", "0", func(p *picker) any { return &p.lora }),
	pickerWeight("weights.inflight", "1", func(p *picker) any { return &p.inflight }),
	without(pickerWeight("weights.failure", "0", func(p *picker) any { return &p.failure }),
		"endpoints that fail are ejected, at any weight"),
	without(pickerNumber("feedback.ewmaAlpha", "0.2", setting.Number, 1e-9, 1,
		func(p *picker) any { return &p.number }), "endpoints that fail are ejected, by failures in a row"),
	without(pickerNumber("debug.sampleRate", "0", setting.Number, 0, 1, func(p *picker) any { return &p.number }),
		"each decision is in the access log"),
	pickerNumber("prefix.blockSizeTokens", "1024", setting.Integer, 1, 1024,
		func(p *picker) any { return &p.blockTokens }),
	pickerNumber("prefix.maxCacheBlocksPerEndpoint", "31250", setting.Integer, 1, 1<<20,
		func(p *picker) any { return &p.cacheBlocks }),
	without(pickerNumber("prefix.maxBlocks", "32", setting.Integer, 1, 128,
		func(p *picker) any { return &p.whole }), "blocks grow, and so reach further into a prompt"),
	without(pickerChoice("prefix.toolMode", "identity", func(p *picker) any { return &p.text },
		"none", "identity", "full"), "tools are part of the prompt as engines see them, as with full"),
	pickerNumber("limits.maxRequestBodyBytes", "4194304", setting.Integer, 1, 100<<20,
		func(p *picker) any { return &p.maxBody }),
	without(pickerNumber("limits.vmRebuildThresholdBytes", "209715200", setting.Integer, 0, 4<<30,
		func(p *picker) any { return &p.whole }), "the memory of a VM is bounded"),
}

func pickerNumber(name, otherwise string, t setting.Type, lo, hi float64, field func(*picker) any) setting.Key {
	return setting.Key{
		Name: name, Default: otherwise, Type: t, Min: lo, Max: hi,
		Field: func(s any) any { return field(s.(*picker)) },
	}
}

func pickerWeight(name, otherwise string, field func(*picker) any) setting.Key {
	return pickerNumber(name, otherwise, setting.Number, 0, maxPickerWeight, field)
}

func pickerChoice(name, otherwise string, field func(*picker) any, choices ...string) setting.Key {
	return setting.Key{
		Name: name, Default: quote(otherwise), Type: setting.Choice, Choices: choices,
		Field: func(s any) any { return field(s.(*picker)) },
	}
}

// without returns a key that has no effect here.
func without(k setting.Key, why string) setting.Key {
	k.NoEffect = "has no effect: " + why
	return k
}

// pickerSections are the objects of ai-endpoint-picker's configuration.
var pickerSections = []string{"weights", "feedback", "picker", "debug", "prefix", "limits"}

// isPicker reports whether a part on Higress is one of ai-endpoint-picker: it has no keys but those, at least one of
// them, or it is a rule without any key. An empty configuration as a whole is none, since it would have all routes.
func isPicker(v value, isRule bool, skip func(name string) bool) bool {
	keys := 0
	for i, name := range v.names {
		if skip != nil && skip(name) {
			continue
		}
		if name != "profile" && !slices.Contains(pickerSections, name) || hasOwnKeys(name, v.items[i]) {
			return false
		}
		keys++
	}
	return keys > 0 || isRule
}

// hasOwnKeys reports whether a section has a key of the section of this plugin that has the same name: prefix, weights.
func hasOwnKeys(name string, v value) bool {
	return slices.ContainsFunc(v.names, func(member string) bool {
		_, isAddress := canonicalAddress(member)
		return find(section+name+"."+member) != nil || isAddress && name == "weights"
	})
}

// readPicker returns what a part of isPicker, with its prefix in messages, is in keys of this plugin, unless one of its
// keys is bad.
func readPicker(p *parser, prefix string, v value, skip func(name string) bool) (own value, ok bool) {
	pk, before := defaultPicker, p.count
	seen := map[string]bool{}
	for i, name := range v.names {
		at, item := prefix+clip(name), v.items[i]
		switch {
		case skip != nil && skip(name):
		case seen[name]:
			p.bad(at, "written twice")
		case name == "profile":
			pk.read(p, name, at, item)
		case item.kind != kindObject:
			p.bad(at, noObject(item))
		default:
			p.eachMember(at, item, func(member, place string, v value) { pk.read(p, name+"."+member, place, v) })
		}
		seen[name] = true
	}
	if pk.queue+pk.kvCache+pk.prefix+pk.lora+pk.inflight+pk.failure == 0 {
		p.bad(prefix+"weights", "all are 0, want at least one above it")
	}
	if pk.inflight == 0 {
		p.warn(prefix+"weights.inflight", "is 0, taken as 1: requests in flight always count")
		pk.inflight = 1
	}
	if p.count > before {
		return value{}, false
	}
	own, err := parseJSON(pk.own())
	return own, err == nil
}

// read decodes one key of ai-endpoint-picker, which ignores those that it does not know. What is written as its default
// counts as not written.
func (pk *picker) read(p *parser, full, at string, v value) {
	i := slices.IndexFunc(pickerKeys, func(k setting.Key) bool { return k.Name == full })
	if i >= 0 {
		k, before := &pickerKeys[i], p.count
		if same, ok := defaultOf(k); ok && same.kind == v.kind && same.text == v.text {
			return
		}
		if p.decode(k, pk, at, v); k.NoEffect != "" && p.count == before {
			p.warn(at, k.NoEffect)
		}
		return
	}
	section, name, _ := strings.Cut(full, ".")
	var known []string
	for i := range pickerKeys {
		if member, ok := strings.CutPrefix(pickerKeys[i].Name, section+"."); ok {
			known = append(known, member)
		}
	}
	if nearest(name, known) != "" {
		p.unknownMember(name, at, known)
		return
	}
	p.warn(at, "is no key of this plugin, and ignored as by ai-endpoint-picker")
}

// own returns the configuration that says the same here. Its weights are relative to the one of requests in flight, and
// so to the defaults of both plugins. What waits in an engine is no cost beside `push: pending`, by which none does.
func (pk *picker) own() string {
	lbPolicy := "prefix_cache"
	switch {
	case pk.prefix > 0:
	case pk.queue+pk.kvCache+pk.lora > 0:
		lbPolicy = "endpoint_metrics"
	default:
		lbPolicy = "global_least_request"
	}
	var cfg, prefix, weights strings.Builder
	bounded := func(f float64) string { return short(min(f, 1000)) }
	add := func(b *strings.Builder, name, value string) {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(quote(name) + ":" + value)
	}
	d := &defaultPicker
	if pk.kvCache/pk.inflight != d.kvCache {
		add(&weights, "kv_cache", bounded(pk.kvCache/pk.inflight/d.kvCache))
	}
	if pk.lora > 0 {
		add(&weights, "lora", bounded(16*pk.lora/pk.inflight))
	}
	if pk.prefix/pk.inflight != d.prefix {
		add(&prefix, "credit", bounded(2*pk.prefix/pk.inflight/d.prefix))
	}
	if pk.blockTokens > 0 {
		add(&prefix, "block_bytes", short(float64(max(pk.blockTokens*pickerTokens, 64))))
	}
	if pk.cacheBlocks > 0 {
		add(&prefix, "cache_tokens", short(float64(pk.cacheBlocks*pickerPage)))
	}
	add(&cfg, "push", `"pending"`)
	add(&cfg, "queue", `{"max_wait":"60s","from_zero":true}`)
	if pk.maxBody > 0 {
		add(&cfg, "max_scan_bytes", short(float64(min(max(pk.maxBody, 1<<10), 64<<20))))
	}
	if prefix.Len() > 0 && lbPolicy == "prefix_cache" {
		add(&cfg, "prefix", "{"+prefix.String()+"}")
	}
	if weights.Len() > 0 && lbPolicy != "global_least_request" {
		add(&cfg, "metrics", `{"weights":{`+weights.String()+"}}")
	}
	return `{"lb_policy":` + quote(lbPolicy) + `,"lb_config":{` + cfg.String() + "}}"
}
