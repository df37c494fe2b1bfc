package config

import (
	"github.com/warmgate/warmgate/lb/engines"
	"github.com/warmgate/warmgate/lb/setting"
)

const (
	keyModelsCluster  = "lb_config.models.cluster"
	keyModelsPath     = "lb_config.models.path"
	keyModelsInterval = "lb_config.models.interval"
	keyModelsRefuse   = "lb_config.models.refuse_unknown"
	keyModelsAffinity = "lb_config.models.affinity"
)

// ReadsModelLists reports whether it is read which models the endpoints have.
func (c *Config) ReadsModelLists() bool { return c.Models.Cluster != "" }

// RefusesUnlisted reports whether a request for a model that no endpoint lists is refused.
func (c *Config) RefusesUnlisted() bool {
	return c.Models.RefuseUnknown && c.ReadsModelLists() && !c.Shadow
}

// NeedsModel reports whether it always matters which model a request is for.
func (c *Config) NeedsModel() bool { return c.RefusesUnlisted() || c.KeepsModels() }

// KeepsModels reports whether the requests for a model stay on few endpoints.
func (c *Config) KeepsModels() bool {
	return c.Models.Affinity && !c.AmongClusters() && !c.needs().Budget
}

// modelKeys are the keys of how lists of models are read.
var modelKeys = []key{
	{Key: setting.Key{
		Name: keyModelsCluster, Type: setting.Text,
		Title: setting.Doc("Cluster", "集群"),
		Meaning: setting.Doc(
			"The ORIGINAL_DST cluster through which each endpoint is asked which models it has, so that requests for "+
				"an adapter go where it is before any was refused; `warmgate-metrics` in the shipped files. Default: "+
				"none is asked",
			"向各端点询问其拥有哪些模型所用的 ORIGINAL_DST 集群，使针对适配器的请求不必先被拒绝，就发往拥有它的端点；"+
				"随附文件中为 `warmgate-metrics`。默认：不询问",
		),
		Field: func(s any) any { return &s.(*Config).Models.Cluster },
	}},
	{Key: setting.Key{
		Name: keyModelsPath, Type: setting.Text, Default: `"/v1/models"`,
		Title: setting.Doc("Path", "路径"),
		Meaning: setting.Doc(
			"Path of an endpoint's list of models, in OpenAI's form",
			"端点提供模型列表的路径，列表为 OpenAI 格式",
		),
		Field: func(s any) any { return &s.(*Config).Models.Path },
	}},
	{Key: setting.Key{
		Name: keyModelsInterval, Type: setting.Duration,
		Min: 1000, Max: setting.Hour, Default: `"10s"`,
		Title: setting.Doc("Interval", "间隔"),
		Meaning: setting.Doc(
			"How often the lists are read; an endpoint that comes is asked within a second",
			"读取列表的间隔；新加入的端点在一秒内被询问",
		),
		Field: func(s any) any { return &s.(*Config).Models.Interval },
	}},
	{Key: setting.Key{
		Name: keyModelsRefuse, Type: setting.Boolean, Default: "false",
		Title: setting.Doc("Refuse unknown models", "拒绝未知模型"),
		Meaning: setting.Doc(
			"Answer a request whose model no endpoint lists with 404 and the models that there are, in place of "+
				"having some endpoint refuse it; while the list of any endpoint is not known, it is balanced",
			"请求的模型不在任何端点的列表中时，以 404 和现有模型的列表应答，而不是交给某个端点去拒绝；"+
				"只要有端点的列表未知，仍照常均衡",
		),
		Field: func(s any) any { return &s.(*Config).Models.RefuseUnknown },
	}},
	{Key: setting.Key{
		Name: keyModelsAffinity, Type: setting.Boolean, Default: "false",
		Title: setting.Doc("Affinity", "亲和"),
		Meaning: setting.Doc(
			"Keep the requests for a model, or an adapter, on as few endpoints as their share of all requests needs, "+
				"for servers that hold only some of their models or adapters at a time; an endpoint behind those "+
				"costs up to `metrics.weights.lora`",
			"将同一模型（或适配器）的请求集中在其请求份额所需的最少端点上，适用于同一时刻只能容纳部分模型或适配器的"+
				"服务器；其余端点的代价最多增加 `metrics.weights.lora`",
		),
		Field: func(s any) any { return &s.(*Config).Models.Affinity },
	}},
}

// modelsSection describes the section of these keys.
func modelsSection() setting.Section {
	return setting.Section{
		Name:  "lb_config.models",
		Title: setting.Doc("Lists of models", "模型列表"),
		Meaning: setting.Doc(
			"Which models each endpoint has, read before a request is refused for its model",
			"在请求因模型被拒绝之前，读取各端点拥有哪些模型",
		),
	}
}

// checkModels checks how lists of models are read.
func (pt *part) checkModels() {
	pt.checkPath(keyModelsPath, pt.Models.Path)
	switch others := []string{keyModelsPath, keyModelsInterval, keyModelsRefuse}; {
	case pt.AmongClusters():
		pt.Models.Cluster = ""
		pt.idle(append(others, keyModelsCluster, keyModelsAffinity),
			`has no effect with lb_type "cluster"; endpoint.lb_config may have it`)
	case !pt.ReadsModelLists():
		pt.idle(others, "has no effect without models.cluster")
	}
	why := ""
	switch {
	case pt.AmongClusters():
		return
	case pt.needs().Budget:
		why = "lb_policy token_budget"
	case pt.Engines.Weights.LoRA == 0:
		why = "metrics.weights.lora 0"
	case pt.Engines.Order != engines.ByLoad:
		why = "metric_policy " + pt.Engines.Order.String()
	default:
		return
	}
	pt.idle([]string{keyModelsAffinity}, "has no effect with "+why)
}
