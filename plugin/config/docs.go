package config

import (
	"strings"

	"github.com/warmgate/warmgate/lb/policy"
	"github.com/warmgate/warmgate/lb/setting"
)

// This file is for what generates the documentation: the plugin calls nothing of it.

// Key documents one key of the configuration.
type Key struct {
	Name    string // full path, as in errors: "lb_config.health.slow_start"
	Type    string // what is accepted
	Default string // JSON text; "" for none
	Meaning string // one sentence

	Chinese  struct{ Type, Meaning string }
	Policies []string    // names of the policies that it is for, sorted; nil: all
	Setting  setting.Key // all that is known of the key, with its full name
}

// Keys returns every key that is accepted, in the order of the documentation.
func Keys() []Key {
	list, fill := make([]Key, len(keys)), fillIn()
	for i := range keys {
		k := keys[i].Key
		k.Meaning = fill(k.Meaning)
		kind := k.TypeName()
		list[i] = Key{
			Name: k.Name, Type: kind.EN, Default: k.Default, Meaning: k.Meaning.EN,
			Policies: keys[i].users, Setting: k,
		}
		list[i].Chinese.Type, list[i].Chinese.Meaning = kind.ZH, k.Meaning.ZH
	}
	return list
}

// fillIn returns a function that replaces in the meaning of a key, or of a section,
//
//	{policies}          by what each policy chooses,
//	{token policies}    by the names of the policies whose load is always counted in tokens,
//	{metrics policies}  by the names of the policies that use metrics of engines,
//	{engines}           by what metrics.engine may be.
func fillIn() func(setting.Words) setting.Words {
	var en, zh []string
	for _, d := range policy.All() {
		nameEN, nameZH := "`"+d.Name+"`", "`"+d.Name+"`"
		for _, alias := range d.Aliases {
			nameEN += ", or `" + alias + "`"
		}
		if d.Aliases != nil {
			nameZH += "（或 `" + strings.Join(d.Aliases, "`、`") + "`）"
		}
		en, zh = append(en, nameEN+": "+d.Meaning.EN), append(zh, nameZH+"："+d.Meaning.ZH)
	}
	tokens, metrics := usersOf(func(n *policy.Needs) bool { return n.Tokens != "" }), metricsPolicies()
	engines := engineNames()
	last := len(engines) - 1
	english := strings.NewReplacer("{policies}", strings.Join(en, "; "),
		"{token policies}", strings.Join(tokens, " and "), "{metrics policies}", strings.Join(metrics, " and "),
		"{engines}", "`"+strings.Join(engines[:last], "`, `")+"` or `"+engines[last]+"`")
	chinese := strings.NewReplacer("{policies}", strings.Join(zh, "；"),
		"{token policies}", strings.Join(tokens, "、"), "{metrics policies}", strings.Join(metrics, "、"),
		"{engines}", "`"+strings.Join(engines[:last], "`、`")+"` 或 `"+engines[last]+"`")
	return func(w setting.Words) setting.Words {
		return setting.Words{EN: english.Replace(w.EN), ZH: chinese.Replace(w.ZH)}
	}
}

// Sections returns the sections of keys that have an effect in Higress, with their full names.
func Sections() []setting.Section {
	list := append(ownSections(), modelsSection(), pricesSection(), sessionSection(), regionsSection(), apiSection(),
		inspectSection(), telemetrySection(), ranksSection())
	for _, d := range policy.All() {
		for _, s := range d.Sections {
			s.Name = section + s.Name
			list = append(list, s)
		}
	}
	fill := fillIn()
	for i := range list {
		list[i].Meaning = fill(list[i].Meaning)
	}
	return list
}

// ownSections returns the sections that are no policy's own.
func ownSections() []setting.Section {
	return []setting.Section{
		{
			Name:  "lb_config",
			Title: setting.Doc("Policy settings", "策略配置"),
			Meaning: setting.Doc(
				"Settings of the policy",
				"策略的配置",
			),
		},
		{
			Name:  "lb_config.overload",
			Title: setting.Doc("Answer when refused", "拒绝时的应答"),
			Meaning: setting.Doc(
				"The answer to a request that is refused",
				"请求被拒绝时的应答",
			),
		},
		{
			Name:  "lb_config.queue",
			Title: setting.Doc("Queue", "队列"),
			Meaning: setting.Doc(
				"How requests wait in the gateway while every endpoint is full",
				"所有端点都已满时，请求如何在网关中等待",
			),
		},
		{
			Name:  "lb_config.health",
			Title: setting.Doc("Passive health", "被动健康检查"),
			Meaning: setting.Doc(
				"When an endpoint that fails requests stops getting them, and how it comes back",
				"请求失败的端点何时停止接收请求，以及如何恢复",
			),
		},
		{
			Name:  "lb_config.metrics",
			Title: setting.Doc("Metrics of the engines", "引擎指标"),
			Meaning: setting.Doc(
				"{metrics policies}: metrics of the engines. The service's health check must store them "+
					"(store_metrics)",
				"{metrics policies}：引擎自身的指标。须由服务的健康检查保存（store_metrics）",
			),
		},
		{
			Name:  "lb_config.metrics.weights",
			Title: setting.Doc("Costs", "代价"),
			Meaning: setting.Doc(
				"Costs of an endpoint, in requests in flight on one of mean weight",
				"各因素对端点的不利程度，以平均权重的端点上的在途请求数计",
			),
		},
	}
}
