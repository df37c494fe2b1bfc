package config

import (
	"github.com/warmgate/warmgate/lb/policy"
	"github.com/warmgate/warmgate/lb/price"
	"github.com/warmgate/warmgate/lb/setting"
)

const (
	keyCurrency     = "lb_config.prices.currency"
	keyPrices       = "lb_config.prices.models"
	keyPricedTenant = "lb_config.prices.tenant_header"
	keyWeighBy      = section + policy.KeyWeighBy
)

// priceKeys are the keys of what tokens cost.
var priceKeys = []key{
	{
		Key: setting.Key{
			Name: keyPrices, Type: setting.Object, Of: pricedKeys, Entries: maxPriced,
			Title: setting.Doc("Models", "模型"),
			Meaning: setting.Doc(
				"Prices of a million tokens by the name of the model, which may end with `*` for all that begin so, "+
					"the longest first: `{\"gpt-4o-mini\": {\"input\": 0.15, \"cached\": 0.075, \"output\": 0.6}, "+
					"\"*\": {\"input\": 0, \"output\": 0}}`. `input` and `output` are required, `cached` is that of "+
					"`input` unless written, `reasoning` that of `output`. A price is a number or a string of 0 to "+
					"1e9 with at most 9 decimals. 256 names at most. Default: costs are not counted",
				"每百万 token 的价格，以模型名称为键；名称可以 `*` 结尾，表示所有以此开头的模型，最长者优先："+
					"`{\"gpt-4o-mini\": {\"input\": 0.15, \"cached\": 0.075, \"output\": 0.6}, "+
					"\"*\": {\"input\": 0, \"output\": 0}}`。`input` 和 `output` 必填；未写 `cached` 时按 `input` 计，"+
					"未写 `reasoning` 时按 `output` 计。价格为 0 到 1e9 的数字或字符串，最多 9 位小数。最多 256 个名称。"+
					"默认：不计算费用",
			),
		},
		set: setPrices,
	},
	{
		Key: setting.Key{
			Name: keyCurrency, Type: setting.Text, Max: currencyLength,
			Title: setting.Doc("Currency", "货币"),
			Meaning: setting.Doc(
				"With `models` required: the currency of the prices, three capital letters as in ISO 4217, such as "+
					"`USD`",
				"设置 `models` 时必填：价格所用的货币，ISO 4217 的三个大写字母，如 `CNY`",
			),
			Field: func(s any) any { return &s.(*Config).Prices.Currency },
		},
		set: setCurrency,
	},
	{
		Key: setting.Key{
			Name: keyPricedTenant, Type: setting.Text, Max: maxHeader,
			Title: setting.Doc("Tenant header", "租户请求头"),
			Meaning: setting.Doc(
				"With `models`: header that names the tenant whose costs they are. Its values are shown in statistics "+
					"and in the access log, so no header with credentials is taken: `authorization`, `cookie`, "+
					"`proxy-authorization`, `x-api-key`. A trusted filter must set it. Default: costs have no tenant",
				"需要 `models`：指明费用归属租户的请求头。其值会出现在统计和访问日志中，因此不接受携带凭据的请求头："+
					"`authorization`、`cookie`、`proxy-authorization`、`x-api-key`。须由可信的过滤器设置。默认：费用不分租户",
			),
			Field: func(s any) any { return &s.(*Config).Prices.Header },
		},
		set: setPricedTenant,
	},
}

// pricedKeys are the members of a model's prices.
var pricedKeys = []setting.Key{
	{Name: "input", Type: setting.Number, Min: 0, Max: price.Max, Required: true},
	{Name: "cached", Type: setting.Number, Min: 0, Max: price.Max},
	{Name: "output", Type: setting.Number, Min: 0, Max: price.Max, Required: true},
	{Name: "reasoning", Type: setting.Number, Min: 0, Max: price.Max},
}

// pricesSection describes the section of these keys.
func pricesSection() setting.Section {
	return setting.Section{
		Name:  "lb_config.prices",
		Title: setting.Doc("Prices", "价格"),
		Meaning: setting.Doc(
			"What tokens cost, for statistics of costs by model and tenant",
			"token 的价格，用于按模型和租户统计费用",
		),
	}
}
