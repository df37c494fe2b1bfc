package policy

import (
	"math"

	"github.com/warmgate/warmgate/lb/price"
	"github.com/warmgate/warmgate/lb/setting"
)

// The keys of how much tokens count in the budget of their tenant.
const (
	// KeyWeighBy is compared with prices, which are no policy's.
	KeyWeighBy = "tenants.weigh_by"
	// ByPrices is its value by which tokens count for what they cost.
	ByPrices = "prices"

	keyWeightInput     = "tenants.weights.input"
	keyWeightCached    = "tenants.weights.cached"
	keyWeightOutput    = "tenants.weights.output"
	keyWeightReasoning = "tenants.weights.reasoning"

	maxTokenWeight = 100
)

// TenantWeights is how much tokens count in the budget of their tenant.
type TenantWeights struct {
	By                               string // see [ByPrices]
	Input, Cached, Output, Reasoning float64

	weighed bool        // not every token counts as one
	rates   price.Rates // then: the weights, what is not written completed
}

// Rates returns what a billion tokens count for, nil if each counts as one.
func (w *TenantWeights) Rates() *price.Rates {
	if !w.weighed {
		return nil
	}
	return &w.rates
}

// check completes the weights; used: tenants have budgets of tokens.
func (w *TenantWeights) check(r setting.Report, used bool) {
	weight := func(key string, written, unwritten float64) float64 {
		switch {
		case !r.Written(key):
			return unwritten
		case !used:
			r.Warning(key, "has no effect without "+keyTenantHeader+" and "+keyTenantTokens)
		case w.By == ByPrices:
			r.Warning(key, "has no effect with "+KeyWeighBy+` "`+ByPrices+`"`)
		}
		return written
	}
	input, output := weight(keyWeightInput, w.Input, 1), weight(keyWeightOutput, w.Output, 1)
	rates := price.Rates{
		Input: nano(input), Cached: nano(weight(keyWeightCached, w.Cached, input)),
		Output: nano(output), Reasoning: nano(weight(keyWeightReasoning, w.Reasoning, output)),
	}
	if each := nano(1); rates != (price.Rates{Input: each, Cached: each, Output: each, Reasoning: each}) {
		w.weighed, w.rates = true, rates
	}
	if r.Written(KeyWeighBy) && !used {
		r.Warning(KeyWeighBy, "has no effect without "+keyTenantHeader+" and "+keyTenantTokens)
	}
}

func nano(weight float64) int64 { return int64(math.Round(weight * price.Nano)) }

// weightKeys describe the weights.
var weightKeys = []setting.Key{
	{
		Name: KeyWeighBy, Type: setting.Choice, Default: `"weights"`, Choices: []string{"weights", ByPrices},
		Title: setting.Doc("Tokens are weighed by", "token 的权重依据"),
		Meaning: setting.Doc(
			"token_budget: by what the tokens of a tenant count: `weights`, those below; `prices`, what they cost by "+
				"`prices.models` relative to `input` of the same model, each as one where that has no price",
			"token_budget：租户的 token 按什么计：`weights` 为下面的权重；`prices` 为其在 `prices.models` 中的价格与同一模型 "+
				"`input` 价格之比，没有价格的模型每个 token 计为一个",
		),
		Field: func(s any) any { return &s.(*BudgetConfig).Weights.By },
	},
	weightKey(keyWeightInput, "1", setting.Doc("Prompt", "提示词"), setting.Doc(
		"token_budget: how much a token of a prompt that was not found in a KV cache counts in the budget of its "+
			"tenant",
		"token_budget：提示词中未命中 KV cache 的一个 token 在其租户的预算中计为多少",
	), func(w *TenantWeights) *float64 { return &w.Input }),
	weightKey(keyWeightCached, "", setting.Doc("Cached", "缓存命中"), setting.Doc(
		"token_budget: how much one counts that was found there, by `usage` in answers; default: that of `input`",
		"token_budget：命中 KV cache 的一个 token 计为多少，以应答中的 `usage` 为准；默认：与 `input` 相同",
	), func(w *TenantWeights) *float64 { return &w.Cached }),
	weightKey(keyWeightOutput, "1", setting.Doc("Output", "输出"), setting.Doc(
		"token_budget: how much a token of an answer counts",
		"token_budget：应答的一个 token 计为多少",
	), func(w *TenantWeights) *float64 { return &w.Output }),
	weightKey(keyWeightReasoning, "", setting.Doc("Reasoning", "推理"), setting.Doc(
		"token_budget: how much one counts by which the model has thought; default: that of `output`",
		"token_budget：模型思考所用的一个 token 计为多少；默认：与 `output` 相同",
	), func(w *TenantWeights) *float64 { return &w.Reasoning }),
}

// weightKey describes the weight of a kind of tokens.
func weightKey(name, unwritten string, title, meaning setting.Words, field func(*TenantWeights) *float64) setting.Key {
	return setting.Key{
		Name: name, Type: setting.Number, Min: 0, Max: maxTokenWeight, Default: unwritten,
		Title: title, Meaning: meaning,
		Field: func(s any) any { return field(&s.(*BudgetConfig).Weights) },
	}
}
