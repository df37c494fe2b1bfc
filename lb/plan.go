package lb

import (
	"errors"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/warmgate/warmgate/lb/budget"
	"github.com/warmgate/warmgate/lb/prompt"
)

// Unit is what a plan counts as load.
type Unit uint8

// The units of load.
const (
	Requests Unit = iota // requests in flight
	Tokens               // tokens in flight: prompt and expected output
)

// UnitNames are the names of the units in the configuration.
var UnitNames = []string{Requests: "requests", Tokens: "tokens"}

// String returns the unit's name in the configuration.
func (u Unit) String() string { return UnitNames[u] }

// UnmarshalText sets the unit to the one with the name.
func (u *Unit) UnmarshalText(name []byte) error {
	i := slices.Index(UnitNames, string(name))
	if i < 0 {
		return errors.New("lb: unknown unit " + string(name))
	}
	*u = Unit(i)
	return nil
}

// Load is the work in flight on one endpoint, summed over all owners.
type Load struct {
	Requests int64
	Tokens   int64
}

// In returns the load in the unit u.
func (l Load) In(u Unit) float64 {
	if u == Tokens {
		return float64(l.Tokens)
	}
	return float64(l.Requests)
}

// Candidate is an endpoint that a request may use, and what load costs there. See [Choose] for the cost.
type Candidate struct {
	Addr        string
	Base        float64 // cost that does not depend on the load
	Slope       float64 // cost per unit of load and weight
	Weight      float64 // share of the work, normalized to about 1 and lowered while the endpoint fails; above 0
	Cap         int64   // requests in flight at which the endpoint takes no more; 0 for no cap
	TokenCap    int64   // tokens in flight at which it takes no more; 0 for no cap. With both, the one reached first
	Capacity    float64 // requests that the engine runs at once; others wait in it
	OverSlope   float64 // additional cost per unit of weight and of requests above Capacity
	ZonePenalty float64 // cost of crossing zones, in requests in flight; not included in Base
	Tier        uint8   // healthy or degraded endpoints of one priority; a retry should stay in its tier
}

// List is candidates that plans share. They are never changed: other candidates are another list.
type List struct {
	Candidates []Candidate
	digest     uint64 // 0 if it is not at hand
}

// NewList returns the list of the candidates, with its digest at hand.
func NewList(cs []Candidate) List { return List{cs, digestOf(cs)} }

// Digest returns a hash of all that is in the candidates, by which lists are recognized: equal ones have the same,
// whoever has made them, and when.
func (l *List) Digest() uint64 {
	if l.digest == 0 {
		return digestOf(l.Candidates)
	}
	return l.digest
}

// digestOf hashes word by word, by multiplication. What floats differ in is in their upper bits, from which no product
// comes down: so each one is rotated by half a word.
func digestOf(cs []Candidate) uint64 {
	d := uint64(len(cs))
	for i := range cs {
		c := &cs[i]
		d = Mix(d ^ EndpointHash(c.Addr))
		for _, x := range [...]uint64{
			math.Float64bits(c.Base), math.Float64bits(c.Slope), math.Float64bits(c.Weight),
			math.Float64bits(c.Capacity), math.Float64bits(c.OverSlope), math.Float64bits(c.ZonePenalty),
			uint64(c.Cap), uint64(c.TokenCap), uint64(c.Tier),
		} {
			d = bits.RotateLeft64((d^x)*0x9e3779b97f4a7c15, 32)
		}
	}
	return d
}

// Plan is the result of a policy: the candidates, and the load that the request adds while in flight.
//
// PerRequest is for engines that compute a limited number of requests at once, in a batch: however few tokens a request
// has, others wait for its slot. Of two candidates with equal tokens in flight the one with fewer requests costs less.
//
// Stall is for what the request does to others: engines compute prompts and the next tokens of answers in one batch, so
// that each answer in flight waits for what has to be computed of a prompt.
type Plan struct {
	Scope string // the name under which load is counted together: the cluster's
	List
	Unit       Unit
	Tokens     int64   // tokens that the request adds while in flight; it always adds one request
	PerRequest int64   // load of each request in flight beside its tokens, in the plan's unit; see [Choose]
	Stall      float64 // load of each request in flight that waits while all of the prompt is computed; see [Choose]
	Random     uint64  // random bits; the lower 32 break ties between equal costs
	Home       Home
	Prefix     Prefix
	Target     Target // by which candidates have their Capacity; the zero value: by none
	Wait       Wait
	Budget     Budget
}

// Budget is what the candidates may be given. The zero value: there are no budgets. With budgets the request is placed
// by the rule of package budget instead of by cost; Candidate.Cap is the cap of requests in flight.
type Budget struct {
	Limits   []budget.Limits // of each candidate; nil: none. Shared by plans
	Tokens   int64           // what is charged, and counted in place of Plan.Tokens: those of prompt and answer
	AgeBonus float64         // tokens a second that are set aside for who waits, up to what it needs; 0: none
	Call     uint16          // of a task: a digest of what its caller asks for
	// MaxClosed is for how long a target is closed at most by its own word: see [budget.Restriction].
	MaxClosed time.Duration
	MaxHint   time.Duration // after which who was refused a task asks again at the latest; 0: there is no such time
	// OwnCaps: the caps are those of a task's caller, and others have higher ones. While the task waits at one, nothing
	// is set aside for it, and it takes no place from others: it could not be placed.
	OwnCaps bool
}

// HasBudget reports whether the request is placed by budgets.
func (p *Plan) HasBudget() bool {
	return len(p.Budget.Limits) > 0 && len(p.Budget.Limits) == len(p.Candidates)
}

// Home is where a session's requests belong. The zero value: nowhere.
//
// With LoadFactor the request is placed at the first candidate in Order that is not full and carries less than
// LoadFactor times what is its part, by weight, of the load of all in Order, this request included; or has fewer
// requests than Free. There always is one that carries less. With +Inf all of them do. Should all of these be full, the
// costs decide. See Mirrokni, Thorup and Zadimoghaddam: "Consistent Hashing with Bounded Loads", 2016. Without
// LoadFactor, Order settles ties between equal costs.
type Home struct {
	Order      []uint16 // indices of candidates, the session's first choice in front; [MaxOrder] at most
	LoadFactor float64  // above 1, +Inf for no bound, or 0
	Free       int64    // requests in flight up to which a candidate is never too busy, at weight 1; 65535 at most
}

// MaxOrder is how many candidates a [Home] has at most: stores get all of them with every request.
const MaxOrder = 256

// Prefix describes the prompt of a plan, so that the request can be sent where the beginning of the prompt is in the KV
// cache. The zero value has no effect.
type Prefix struct {
	Blocks       []prompt.Block // prefix blocks of the prompt
	Bytes        int            // length of the prompt in bytes, as in Block.End
	Tokens       int64          // tokens of the prompt that a full match saves: they are neither computed nor counted
	Takes        time.Duration  // in which these are computed; 0: unknown
	Credit       float64        // how much a full match lowers the cost while a candidate is idle, in the plan's unit
	CreditGrowth float64        // part of Credit to add per request in flight where fewest are; see [Choose]
	// [i]: bytes credited for a match of i+1 blocks, at most twice Blocks[i].End; nil: Blocks[i].End
	CreditBytes []uint32
	TTL         time.Duration // how long an endpoint is assumed to retain what it has computed
	ShortTTL    []EndpointTTL // endpoints whose cache entries expire sooner than TTL; shared between plans
	IndexMemory IndexMemory   // of the prefix index that records the prompt
}

// MaxTTL is the longest time that an endpoint is assumed to retain what it has computed, whatever is configured: stores
// count in ticks that wrap.
const MaxTTL = 48 * time.Hour

// EndpointTTL is how long one endpoint is assumed to retain what it has computed: a prompt that was recorded for it
// longer ago does not match.
type EndpointTTL struct {
	Endpoint uint32 // see EndpointTag
	TTL      time.Duration
}

// TTLOf returns the TTL of an endpoint. Of several entries with the same tag the last one counts, as in Redis.
func (p *Prefix) TTLOf(endpoint uint32) time.Duration {
	for i := len(p.ShortTTL) - 1; i >= 0; i-- {
		if p.ShortTTL[i].Endpoint == endpoint {
			return p.ShortTTL[i].TTL
		}
	}
	return p.TTL
}

// IndexMemory is how many bytes the prefix index may use. Policies copy it from their configuration into plans, and
// each kind of store reads its own field. Configurations of one cluster may differ in it.
type IndexMemory struct {
	Local  int // in the memory of one gateway, for all its clusters: see [LocalStore]
	Remote int // in a [RemoteStore] for one cluster, for all gateways
}

// NeedsLookup reports whether a store has to look the prompt up: it has blocks and a length, and endpoints retain it
// for at least a millisecond.
func (p *Prefix) NeedsLookup() bool {
	return len(p.Blocks) > 0 && p.Bytes > 0 && p.TTL >= time.Millisecond
}

// Fraction returns which part of the prompt the first n blocks are, from 0 to 1.
func (p *Prefix) Fraction(n int) float64 {
	if n == 0 {
		return 0
	}
	return float64(p.Blocks[n-1].End) / float64(p.Bytes)
}

// creditFraction returns which part of Credit a match of n blocks earns, from 0 to 1.
func (p *Prefix) creditFraction(n int) float64 {
	if n == 0 || p.CreditBytes == nil {
		return p.Fraction(n)
	}
	return float64(p.CreditBytes[n-1]) / float64(p.Bytes)
}

// AddedTokens returns the tokens that the request adds at an endpoint with a match of n blocks; with budgets, what it
// is charged.
func (p *Plan) AddedTokens(n int) int64 {
	if p.HasBudget() {
		return min(max(p.Budget.Tokens, 0), MaxTokens)
	}
	saved := int64(float64(p.Prefix.Tokens) * p.Prefix.Fraction(n))
	return min(max(p.Tokens-saved, 0), MaxTokens)
}

// HeldUp is how many other requests are taken to wait while an engine computes a prompt that another one has cached:
// prefill delays all that the engine runs. With a lower number more is computed twice and all answers take longer, with
// a higher one first tokens come later: see docs/design/regions.md.
const HeldUp = 3

// Patience returns for how long the request waits for a full candidate with a match of n blocks in place of one
// without, in steps of [PatienceStep]: for Wait.Patience; but if another one is open when it comes, for no longer than
// the delay of computing these blocks again, summed over the request and those that are [HeldUp]. If none is open then,
// it keeps all of its patience, even if one opens later.
func (p *Plan) Patience(n int, open bool) time.Duration {
	most := p.Wait.Patience
	if delay := p.Prefix.DelayMillis(); open && delay > 0 {
		most = min(most, time.Duration(float64(delay)*p.Prefix.Fraction(n))*time.Millisecond)
	}
	return max(0, most).Truncate(PatienceStep)
}

// Saves returns the time in which the first n blocks are computed, 0 if that is not known.
func (p *Prefix) Saves(n int) time.Duration { return time.Duration(float64(p.Takes) * p.Fraction(n)) }

// DelayMillis returns the delay of computing the whole prompt, summed over the request and those that are [HeldUp], in
// ms, rounded up, MaxTTL at most; 0 if it is not known.
func (p *Prefix) DelayMillis() int64 {
	delay := (1 + HeldUp) * min(max(p.Takes, 0), MaxTTL/(1+HeldUp))
	return int64((delay + time.Millisecond - 1) / time.Millisecond)
}

// Added returns the load of the request without a match, in the plan's unit.
func (p *Plan) Added() float64 {
	if p.Unit == Tokens {
		return float64(min(max(p.Tokens, 0), MaxTokens))
	}
	return 1
}
