package policy

import "github.com/warmgate/warmgate/lb/setting"

// Objective is what placing a request is to keep short: the time to its first token, or the time per token, of its own
// answer and of those that run where it is placed. Only the ratio of the weights matters; the zero value is that they
// are equal.
type Objective struct{ TTFT, TPOT float64 }

const (
	// maxTimeWeight bounds the weight of the time per token, as a multiple of that of the first token.
	maxTimeWeight = 16
	// stallShare is which part of an uncached token each request in flight is charged for, for each weight of the time
	// per token above 1. At 1 nothing is charged: it makes tokens faster on the whole, but the first one later where
	// caches are too small for all prompts (e2e/bench/placement).
	stallShare = 0.1
	keyTTFT    = "objective.ttft"
	keyTPOT    = "objective.tpot"
)

// token returns the weight of the time per token, that of the time to the first token being 1. It is not below 1: with
// less the first token came later, too, since it was placed at slower endpoints.
func (o Objective) token() float64 {
	switch {
	case o.TPOT <= o.TTFT:
		return 1
	case o.TPOT >= maxTimeWeight*o.TTFT:
		return maxTimeWeight
	}
	return o.TPOT / o.TTFT
}

// stall returns the load of each request in flight while a prompt of so many tokens is computed: see [lb.Plan.Stall].
func (o Objective) stall(tokens int64) float64 {
	return stallShare * (o.token() - 1) * float64(max(0, tokens))
}

func (o Objective) check(r setting.Report) {
	if o.TTFT == 0 && o.TPOT == 0 {
		r.Problem(keyTTFT, "objective.ttft and objective.tpot are both 0; one must be above 0")
	} else if o.TPOT < o.TTFT {
		r.Warning(keyTPOT, "less than objective.ttft counts as equal: the first token would come no earlier")
	}
}

var objectiveSection = setting.Section{
	Name:  "objective",
	Title: setting.Doc("Objective", "目标"),
	Meaning: setting.Doc(
		"prefix_cache: what placing requests is to keep short",
		"prefix_cache：放置请求时要缩短什么",
	),
}

var objectiveKeys = []setting.Key{
	{
		Name: keyTTFT, Type: setting.Number, Min: 0, Max: 1000, Default: "1",
		Title: setting.Doc("Weight of the first token", "首 token 的权重"),
		Meaning: setting.Doc(
			"prefix_cache: weight of the time to the first token, against `objective.tpot`; only their ratio matters",
			"prefix_cache：首 token 时间的权重，与 `objective.tpot` 相对；只有两者之比起作用",
		),
		Field: func(s any) any { return &s.(*CacheConfig).Objective.TTFT },
	},
	{
		Name: keyTPOT, Type: setting.Number, Min: 0, Max: 1000, Default: "1",
		Title: setting.Doc("Weight of the time per token", "每 token 时间的权重"),
		Meaning: setting.Doc(
			"prefix_cache: weight of the time per token, up to 16 times `objective.ttft`; less than that counts as "+
				"equal. The more above it, the more it counts that an endpoint is slow, and that prompts which are "+
				"computed stall the answers of others",
			"prefix_cache：每 token 时间的权重，最多为 `objective.ttft` 的 16 倍；低于它时视为相等。"+
				"高出越多，端点慢和计算提示词对其他应答的拖慢就越重要",
		),
		Field: func(s any) any { return &s.(*CacheConfig).Objective.TPOT },
	},
}
