package config

import "github.com/warmgate/warmgate/lb/setting"

const (
	keyModelsCluster  = "lb_config.models.cluster"
	keyModelsPath     = "lb_config.models.path"
	keyModelsInterval = "lb_config.models.interval"
)

// ReadsModelLists reports whether it is read which models the endpoints have.
func (c *Config) ReadsModelLists() bool { return c.Models.Cluster != "" }

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
	switch others := []string{keyModelsPath, keyModelsInterval}; {
	case pt.AmongClusters():
		pt.Models.Cluster = ""
		pt.idle(append(others, keyModelsCluster), `has no effect with lb_type "cluster"; endpoint.lb_config may have it`)
	case !pt.ReadsModelLists():
		pt.idle(others, "has no effect without models.cluster")
	}
}
