package policy

import (
	"slices"

	"github.com/warmgate/warmgate/internal/order"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/setting"
)

// Descriptor describes a policy. All that other packages know of one policy and not of another follows from it: the
// configuration that is accepted, its documentation, what is read of requests, and whether engines are scraped.
type Descriptor struct {
	Name    string        // value of lb_policy, and of the label policy of statistics
	Aliases []string      // other values of lb_policy that select it
	Rank    int           // place in lists of policies, the lowest first
	Meaning setting.Words // what it chooses, as a part of a sentence, in Markdown
	Among   Level         // what it can choose among

	Needs Needs

	// Settings returns a pointer to the zero value of what Keys are decoded into; nil for a policy without keys.
	Settings func() any
	// Keys are the policy's own keys, with names below lb_config.
	Keys []setting.Key
	// Sections are the sections of Keys that no other part of the configuration has.
	Sections []setting.Section
	// Check compares the values of the keys with each other and completes them; nil if there is nothing to compare.
	Check func(settings any, r setting.Report)

	New func(Config) (lb.Policy, error)
}

// Level is what a policy can choose among.
type Level uint8

// The levels.
const (
	Endpoints           Level = iota // the endpoints of one cluster
	Clusters                         // clusters, each of which is a candidate
	EndpointsOrClusters              // either
)

// Includes reports whether a policy of this level can choose among what the other level is.
func (l Level) Includes(other Level) bool { return l == other || l == EndpointsOrClusters }

// Needs is what a policy needs of requests and of the gateway. The zero value is a policy that counts requests only:
// no header and no body is read for it.
type Needs struct {
	// Tokens is why load can only be counted in tokens, as the rest of a sentence that begins with the policy's name;
	// "" where the configuration chooses the unit. With tokens, bodies are read.
	Tokens string
	// Prompt is set if the prompt is cut into blocks: [lb.Request.Blocks]. It requires Tokens, and Settings that are a
	// [CacheConfig].
	Prompt bool
	// Model is set if the model of a request matters while engines report LoRA adapters: [lb.Request.Model]. Bodies are
	// read then.
	Model bool
	// Metrics is whether engines are scraped.
	Metrics MetricsUse
	// Session is whether the key of a request's session is read: [lb.Request.Session].
	Session SessionUse
	// Budget is set if plans have a [lb.Budget]: answers are read for their usage and for the rate limits in their
	// headers. It requires Tokens, and Settings that are a [BudgetConfig].
	Budget bool
}

// SessionUse is what a policy uses the sessions of requests for.
type SessionUse uint8

// The uses of sessions.
const (
	NoSession       SessionUse = iota // requests have none
	SessionOptional                   // it is used with [CacheConfig.SessionAffinity]
	SessionRequired                   // the choice follows from it
)

// MetricsUse is what a policy uses the metrics of engines for.
type MetricsUse uint8

// The uses of metrics.
const (
	NoMetrics       MetricsUse = iota // engines are not scraped
	MetricsOptional                   // they are used where there are any
	MetricsRequired                   // without fresh ones, native balancing decides
)

// registry contains the policies by rank, then by name.
var registry []*Descriptor

// register adds a policy. It is called by init functions only.
func register(d *Descriptor) {
	registry = append(registry, d)
	order.By(registry, func(a, b **Descriptor) bool {
		return (*a).Rank < (*b).Rank || (*a).Rank == (*b).Rank && (*a).Name < (*b).Name
	})
}

// All returns all policies in the order of the documentation. They must not be changed.
func All() []*Descriptor { return registry }

// noPolicy stands for an unknown one.
var noPolicy Descriptor

// Describe returns the policy with the name, which may be an alias. For an unknown name it returns the zero Descriptor.
//
//go:noinline
func Describe(name string) *Descriptor {
	for _, d := range registry {
		if d.Name == name || slices.Contains(d.Aliases, name) {
			return d
		}
	}
	return &noPolicy
}
