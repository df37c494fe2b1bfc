package storetest

import (
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
	"github.com/warmgate/warmgate/lb/prompt"
)

// Addrs returns n endpoint addresses.
func Addrs(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = "10.0." + string(rune('0'+i/100)) + "." + string(rune('0'+i/10%10)) + string(rune('0'+i%10)) + ":8000"
	}
	return out
}

// Even returns a plan for scope llm in which all addresses are candidates of equal cost.
func Even(addrs []string) *lb.Plan {
	p := &lb.Plan{Scope: "llm"}
	for _, a := range addrs {
		p.Candidates = append(p.Candidates, lb.Candidate{Addr: a, Slope: 1, Weight: 1})
	}
	return p
}

// Budgeted returns a plan for scope llm in which all addresses are candidates with the limits, for a request of so many
// tokens.
func Budgeted(addrs []string, l budget.Limits, tokens int64) *lb.Plan {
	p := Even(addrs)
	p.Unit, p.Budget.Tokens = lb.Tokens, tokens
	for range addrs {
		p.Budget.Limits = append(p.Budget.Limits, l)
	}
	return p
}

// Blocks returns the blocks of a prompt, four for each seed. Prompts that begin with the same seeds begin with the same
// blocks.
func Blocks(seeds ...uint64) []prompt.Block {
	var out []prompt.Block
	key := uint64(0)
	for _, seed := range seeds {
		for range 4 {
			key = (key^seed+1)*0x9e3779b97f4a7c15 ^ key>>29
			out = append(out, prompt.Block{Key: key >> 8, End: 100 * (len(out) + 1)})
		}
	}
	return out
}

// The tokens of each prompt and of each answer in these tests.
const (
	promptTokens = 1000
	answerTokens = 10
)

// WithPrompt returns the plan p with a prompt of the given blocks. Each cached token is worth credit tokens of load.
func WithPrompt(p *lb.Plan, credit float64, blocks []prompt.Block) *lb.Plan {
	out := *p
	out.Unit, out.Tokens = lb.Tokens, promptTokens+answerTokens
	out.Prefix = lb.Prefix{
		Blocks: blocks, Bytes: 100 * len(blocks), Tokens: promptTokens, Credit: credit * promptTokens,
		TTL: time.Minute, IndexMemory: lb.IndexMemory{Local: 8 << 20, Remote: 8 << 20},
	}
	return &out
}

// WithHome returns the plan for a session that prefers the candidates in this order.
func WithHome(p *lb.Plan, factor float64, order ...uint16) *lb.Plan {
	out := *p
	out.Home = lb.Home{Order: order, LoadFactor: factor}
	return &out
}

// tenants is a scope of tenants.
const tenants = lb.TenantsScope + "llm"

// TenantPlan returns a plan for a tenant, by its number, with at most so many requests in flight.
func TenantPlan(tenant int, l budget.Limits, limit int, tokens int64) *lb.Plan {
	b := lb.TenantBudget{Header: "x", Limits: l, MaxConcurrent: limit}
	return b.Plan(tenants, uint64(tenant)*0x9e3779b97f4a7c15+1, tokens)
}

// the classes of the suite
var (
	high = lb.Class{ID: 11, Rank: 0, Weight: 8}
	low  = lb.Class{ID: 7, Rank: 1, Weight: 1}
)

// wait is how requests of the suite wait unless a test wants something else.
func wait(class lb.Class) lb.Wait {
	return lb.Wait{Max: time.Minute, Class: class, Length: 1000}
}

// limited returns a plan over the addresses, each of which takes limit requests, for a request that waits.
func limited(addrs []string, limit int64, w lb.Wait) *lb.Plan {
	p := Even(addrs)
	for i := range p.Candidates {
		p.Candidates[i].Cap = limit
	}
	p.Wait = w
	return p
}

// perMinute returns a plan over the addresses, each with a bucket of so many tokens, for a request of so many that
// waits.
func perMinute(addrs []string, rate float64, tokens int64) *lb.Plan {
	p := Budgeted(addrs, budget.Limits{Weight: 1, Tokens: rate}, tokens)
	p.Wait = wait(low)
	p.Wait.Max = 10 * time.Minute
	return p
}
