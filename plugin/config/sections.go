package config

import (
	"strings"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/setting"
)

// Sections returns the sections of keys that have an effect in Higress, with their full names.
func Sections() []setting.Section {
	list := []setting.Section{
		{
			Name:  "lb_config",
			Title: setting.Words{EN: "Policy settings", ZH: "策略配置"},
			Meaning: setting.Words{
				EN: "Settings of the policy",
				ZH: "策略的配置",
			},
		},
		{
			Name:  "lb_config.overload",
			Title: setting.Words{EN: "Answer when shed", ZH: "拒绝时的应答"},
			Meaning: setting.Words{
				EN: "The answer to a request for which every endpoint is at its cap",
				ZH: "所有端点均达到上限时的应答",
			},
		},
		{
			Name:  "lb_config.health",
			Title: setting.Words{EN: "Passive health", ZH: "被动健康检查"},
			Meaning: setting.Words{
				EN: "When an endpoint that fails requests stops getting them, and how it comes back",
				ZH: "请求失败的端点何时停止接收请求，以及如何恢复",
			},
		},
		{
			Name:  "lb_config.metrics",
			Title: setting.Words{EN: "Metrics of the engines", ZH: "引擎指标"},
			Meaning: setting.Words{
				EN: strings.Join(metricsPolicies(), " and ") + ": metrics of the engines. The service's health check " +
					"must store them (store_metrics)",
				ZH: strings.Join(metricsPolicies(), "、") + "：引擎自身的指标。须由服务的健康检查保存（store_metrics）",
			},
		},
		{
			Name:  "lb_config.metrics.weights",
			Title: setting.Words{EN: "Costs", ZH: "代价"},
			Meaning: setting.Words{
				EN: "Costs of an endpoint, in requests in flight on one of mean weight",
				ZH: "各因素对端点的不利程度，以平均权重的端点上的在途请求数计",
			},
		},
	}
	for _, d := range lb.Policies() {
		for _, s := range d.Sections {
			s.Name = section + s.Name
			list = append(list, s)
		}
	}
	return list
}
