package budget

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/warmgate/warmgate/e2e/quotasim"
)

// scale is how many times as long as here a call would take: 1 s to 2 min there are 10 ms to 1.2 s here. Rates are not
// scaled: buckets hold what a minute brings, so a minute remains one.
const scale = 100

// fleet returns the models. Weights are in proportion to the rates in tokens.
func fleet() []quotasim.Config {
	list := []quotasim.Config{
		{Name: "gpt-4o", Slots: 7, TokensPerMinute: 183_000, RequestsPerMinute: 197, Speed: 1.1},
		{Name: "gpt-4o-mini", Slots: 13, TokensPerMinute: 347_000, RequestsPerMinute: 371, Speed: 1},
		{Name: "gpt-4.1", Slots: 6, TokensPerMinute: 151_000, RequestsPerMinute: 163, Speed: 1.3},
		{Name: "gpt-4.1-mini", Slots: 9, TokensPerMinute: 229_000, RequestsPerMinute: 241, Speed: 1},
		{Name: "o4-mini", Slots: 5, TokensPerMinute: 107_000, RequestsPerMinute: 113, Speed: 2},
		{Name: "claude-opus", Slots: 4, TokensPerMinute: 89_000, RequestsPerMinute: 97, Speed: 1.9, Anthropic: true},
		{
			Name: "claude-sonnet", Slots: 7, TokensPerMinute: 173_000, RequestsPerMinute: 181, Speed: 1.4,
			Anthropic: true,
		},
		{Name: "claude-haiku", Slots: 11, TokensPerMinute: 293_000, RequestsPerMinute: 311, Speed: 1, Anthropic: true},
		{Name: "mistral-large", Slots: 5, TokensPerMinute: 113_000, RequestsPerMinute: 127, Speed: 1.6},
		{Name: "llama-70b", Slots: 4, TokensPerMinute: 97_000, RequestsPerMinute: 103, Speed: 1.7},
	}
	return list
}

// weightOf returns a model's weight, within what a configuration may have.
func weightOf(m *quotasim.Config) float64 { return min(m.TokensPerMinute/1000, 1000) }

// task is a prompt to be answered by any of the models.
type task struct {
	number int
	prompt int           // tokens
	limit  int           // tokens that the answer has at most
	output int           // tokens that it has
	time   time.Duration // that the answer takes at speed 1
}

// estimate is how many tokens the task may use, and used how many it does.
func (t *task) estimate() int { return t.prompt + t.limit }
func (t *task) used() int     { return t.prompt + t.output }

func (t *task) work() quotasim.Work {
	return quotasim.Work{Task: strconv.Itoa(t.number), Output: t.output, Time: t.time}
}

// The tasks' sizes and times are log-normal, within these bounds. A model's speed adds up to twice the time.
const (
	medianTokens, sigmaTokens, leastTokens, mostTokens = 1130, 0.9, 67, 21_300
	medianTime, sigmaTime, leastTime, mostTime         = 83, 0.9, 10, 600 // ms
)

// tasksOf returns n tasks. The same seed gives the same.
func tasksOf(seed uint64, n int) []task {
	r := rand.New(rand.NewPCG(seed, 0x6275646765740000))
	logNormal := func(median, sigma, least, most float64) float64 {
		return min(max(median*math.Exp(sigma*r.NormFloat64()), least), most)
	}
	out := make([]task, n)
	for i := range out {
		estimate := logNormal(medianTokens, sigmaTokens, leastTokens, mostTokens)
		prompt := max(1, int(estimate*(0.3+0.5*r.Float64())))
		limit := max(1, int(estimate)-prompt)
		out[i] = task{
			number: i, prompt: prompt, limit: limit,
			output: max(1, int(float64(limit)*(0.35+0.65*r.Float64()))),
			time:   time.Duration(logNormal(medianTime, sigmaTime, leastTime, mostTime) * float64(time.Millisecond)),
		}
	}
	return out
}

// bySize returns the numbers of the tasks from the smallest to the largest.
func bySize(tasks []task) []int {
	out := make([]int, len(tasks))
	for i := range out {
		out[i] = i
	}
	slices.SortFunc(out, func(a, b int) int {
		return cmp.Or(cmp.Compare(tasks[a].estimate(), tasks[b].estimate()), cmp.Compare(a, b))
	})
	return out
}

// perfect returns a lower bound of the time in which the tasks can be done, whoever places them: tokens, requests and
// work are taken for fluids that flow into the models as fast as rates and slots allow. It knows what each task will
// use, and no task needs to wait for another.
func perfect(models []quotasim.Config, tasks []task) time.Duration {
	tokens, work := 0.0, 0.0
	for i := range tasks {
		tokens += float64(tasks[i].used())
		work += tasks[i].time.Seconds()
	}
	enough := func(seconds float64) bool {
		tokensFit, requestsFit, workFits := 0.0, 0.0, 0.0
		for i := range models {
			m := &models[i]
			minutes := seconds / 60
			tokensFit += m.TokensPerMinute * (1 + minutes)
			requestsFit += m.RequestsPerMinute * (1 + minutes)
			workFits += float64(m.Slots) * seconds / m.Speed
		}
		return tokensFit >= tokens && requestsFit >= float64(len(tasks)) && workFits >= work
	}
	low, high := 0.0, 1.0
	for !enough(high) {
		low, high = high, 2*high
	}
	for range 40 {
		if middle := (low + high) / 2; enough(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return time.Duration(high * float64(time.Second))
}
