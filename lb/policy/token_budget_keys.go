package policy

import "github.com/warmgate/warmgate/lb/setting"

// The keys of token_budget that are compared with others.
const (
	keyTargets        = "targets"
	keyTenantHeader   = "tenants.tenant_header"
	keyTenantTokens   = "tenants.max_tokens_per_minute"
	keyTenantRequests = "tenants.max_requests_per_minute"
	keyTenantInflight = "tenants.max_concurrent_requests"
)

// Bounds of limits. A rate is far below where a float64 would round tokens. With less than one a minute a request would
// wait for days.
const (
	maxTargets    = 64
	minRate       = 1
	maxRate       = 1e12
	maxConcurrent = 1e6
)

var tokenBudgetKeys = []setting.Key{
	{
		Name: keyTargets, Type: setting.Object, Of: budgetTargetKeys, Entries: maxTargets,
		Title: setting.Doc("Targets", "目标"),
		Meaning: setting.Doc(
			"token_budget, required: what each cluster, by its name, or endpoint, by `ip:port`, may get: `weight`, "+
				"its share of the tokens (0.001 to 1000, required), `max_concurrent_requests`, "+
				"`max_tokens_per_minute` and `max_requests_per_minute` (1 at least), each 0 for no limit. "+
				"One that is not listed gets nothing. 64 at most",
			"token_budget，必填：每个集群（以名称为键）或端点（以 `ip:port` 为键）可得到多少：`weight` 为其 token 份额"+
				"（0.001 到 1000，必填），以及 `max_concurrent_requests`、`max_tokens_per_minute` 和 "+
				"`max_requests_per_minute`（至少为 1），0 表示不限。未列出的得不到请求。最多 64 个",
		),
		Field: func(s any) any { return s.(*BudgetConfig) },
	},
	{
		Name: "age_bonus", Type: setting.Number, Min: 0, Max: 1e9, Default: "5000",
		Title: setting.Doc("Age bonus", "等待加成"),
		Meaning: setting.Doc(
			"token_budget: tokens that are set aside for a waiting request for each second that it has waited, at "+
				"most as many as it needs, so that smaller ones do not pass it for ever; 0: none",
			"token_budget：请求每等待一秒，就为它预留这么多 token（不超过其所需），避免它一直被较小的请求超过；0：不预留",
		),
		Field: func(s any) any { return &s.(*BudgetConfig).AgeBonus },
	},
	{
		Name: "max_closed", Type: setting.Duration, Min: setting.Second, Max: setting.Hour, Default: `"60s"`,
		Title: setting.Doc("Longest closure", "最长关闭时间"),
		Meaning: setting.Doc(
			"token_budget: how long a target gets no requests at most because it has said so, as by `retry-after`; if "+
				"it has said longer, then one request asks whether it is still closed",
			"token_budget：目标自称不接收请求时（如 `retry-after`）最多关闭多久；若其所述更久，到时由一个请求去询问它是否仍关闭",
		),
		Field: func(s any) any { return &s.(*BudgetConfig).MaxClosed },
	},
	{
		Name: keyTenantHeader, Type: setting.Text,
		Title: setting.Doc("Tenant header", "租户请求头"),
		Meaning: setting.Doc(
			"token_budget: header that names the tenant; requests without it are one tenant. A trusted filter must "+
				"set it",
			"token_budget：指明租户的请求头；没有该请求头的请求属于同一个租户。须由可信的过滤器设置",
		),
		Field: func(s any) any { return &s.(*BudgetConfig).Tenants.Header },
	},
	{
		Name: keyTenantTokens, Type: setting.Number, Min: minRate, Max: maxRate, OrZero: true, Default: "0",
		Title: setting.Doc("Tokens a minute of a tenant", "租户每分钟 token 数"),
		Meaning: setting.Doc(
			"token_budget: tokens a minute that each tenant may use; a tenant that is over it is refused, and no "+
				"other; 0: no limit",
			"token_budget：每个租户每分钟可用的 token 数；超出的租户被拒绝，其他租户不受影响；0：不限",
		),
		Field: func(s any) any { return &s.(*BudgetConfig).Tenants.Limits.Tokens },
	},
	{
		Name: keyTenantRequests, Type: setting.Number, Min: minRate, Max: maxRate, OrZero: true, Default: "0",
		Title: setting.Doc("Requests a minute of a tenant", "租户每分钟请求数"),
		Meaning: setting.Doc(
			"token_budget: requests a minute that each tenant may send, likewise; 0: no limit",
			"token_budget：每个租户每分钟可发送的请求数，规则相同；0：不限",
		),
		Field: func(s any) any { return &s.(*BudgetConfig).Tenants.Limits.Requests },
	},
	{
		Name: keyTenantInflight, Type: setting.Integer, Min: 0, Max: maxConcurrent, Default: "0",
		Title: setting.Doc("Requests in flight of a tenant", "租户在途请求数"),
		Meaning: setting.Doc(
			"token_budget: requests that each tenant may have in flight, likewise; 0: no limit",
			"token_budget：每个租户的在途请求上限，规则相同；0：不限",
		),
		Field: func(s any) any { return &s.(*BudgetConfig).Tenants.MaxConcurrent },
	},
}

// LimitKeys are the members of a [BudgetTarget] that can be set at run time.
func LimitKeys() []setting.Key { return budgetTargetKeys[1:] }

// budgetTargetKeys are the members of a target. [BudgetTarget.Adjustable] has all but the first in the same order.
var budgetTargetKeys = []setting.Key{
	{
		Name: "weight", Type: setting.Number, Min: 0.001, Max: 1000, Required: true,
		Field: func(s any) any { return &s.(*BudgetTarget).Limits.Weight },
	},
	{
		Name: "max_concurrent_requests", Type: setting.Integer, Min: 0, Max: maxConcurrent, Default: "0",
		Field: func(s any) any { return &s.(*BudgetTarget).MaxConcurrent },
	},
	{
		Name: "max_tokens_per_minute", Type: setting.Number, Min: minRate, Max: maxRate, OrZero: true, Default: "0",
		Field: func(s any) any { return &s.(*BudgetTarget).Limits.Tokens },
	},
	{
		Name: "max_requests_per_minute", Type: setting.Number, Min: minRate, Max: maxRate, OrZero: true, Default: "0",
		Field: func(s any) any { return &s.(*BudgetTarget).Limits.Requests },
	},
}
