package config

import (
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/setting"
)

// ranksKeys are the keys of servers with data parallelism.
var ranksKeys = []key{
	{Key: setting.Key{
		Name: keyRanks, Type: setting.Boolean, Default: "false",
		Title: setting.Doc("Ranks", "rank"),
		Meaning: setting.Doc(
			"Choose among the [data-parallel ranks](ranks.md) of servers that have several behind one port, with the "+
				"header `X-data-parallel-rank`",
			"在同一端口后有多个[数据并行 rank](ranks_ZH.md) 的服务器中按 rank 选择，使用请求头 `X-data-parallel-rank`",
		),
		Field: func(s any) any { return &s.(*Config).Ranks.Enabled },
	}},
	{Key: setting.Key{
		Name: keyRankCount, Type: setting.Integer, Min: 0, Max: lb.MaxRanks, Default: "0",
		Title: setting.Doc("Number of ranks", "rank 数"),
		Meaning: setting.Doc(
			"How many ranks each server has; 0: as many as its metrics show, and until they are read it balances "+
				"itself",
			"每台服务器的 rank 数；0：以其指标所示为准，读到指标之前由服务器自行均衡",
		),
		Field: func(s any) any { return &s.(*Config).Ranks.Count },
	}},
}

// ranksSection describes the section of these keys.
func ranksSection() setting.Section {
	return setting.Section{
		Name: "lb_config.ranks", Title: setting.Doc("Data-parallel ranks", "数据并行 rank"),
		Meaning: setting.Doc(
			"Servers of vLLM or SGLang that run several engines behind one port",
			"在同一端口后运行多个引擎的 vLLM 或 SGLang 服务器",
		),
	}
}
