package lb

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/warmgate/warmgate/metrics"
)

// EngineConfig says how what engines tell is weighed.
type EngineConfig struct {
	Order      Order
	Target     string        // name of the metric that LeastTarget and MostTarget compare
	StaleAfter time.Duration // age from which a reading says nothing any more
	Learn      bool          // capacities are learned unless they are configured
	Weights    EngineWeights
	RateLimit  float64 // the largest share of requests that one endpoint gets; 1 and above: no limit
}

// Order is what endpoint_metrics prefers.
type Order uint8

// The orders.
const (
	ByLoad      Order = iota // where a request is likely to be served soonest
	LeastTarget              // least of one metric
	MostTarget               // most of it
)

var orderNames = [...]string{ByLoad: "default", LeastTarget: "least", MostTarget: "most"}

// String returns the order's name in the configuration.
func (o Order) String() string { return orderNames[o] }

// UnmarshalText sets the order to the one with the name.
func (o *Order) UnmarshalText(name []byte) error {
	i := slices.Index(orderNames[:], string(name))
	if i < 0 {
		return errors.New("lb: unknown order " + string(name))
	}
	*o = Order(i)
	return nil
}

// EngineWeights are costs, in requests in flight on an endpoint of weight 1.
type EngineWeights struct {
	Running float64 // of each request in flight
	Queue   float64 // of each request that waits, on top of that
	KVCache float64 // of a KV cache in full use
	LoRA    float64 // of an adapter that must take another's place
}

// engineKey names what the costs of a list follow from, beside what the engines tell.
type engineKey struct {
	of      *Candidate // the first of those that are weighed
	cfg     *EngineConfig
	unit    Unit
	adapter uint64
	fixed   bool // their weights are configured
}

// engineList is a list of candidates with what their engines say.
type engineList struct {
	of      []Candidate // that are weighed: the list stays where it is
	version uint64
	until   time.Duration
	used    time.Duration
	out     []Candidate
	fresh   int
}

// weigh returns the candidates with the costs that their engines give them, and of how many there is a fresh reading.
// Without any, they are returned as they are. fixed says that their weights are configured. Like the list it is given,
// the one it returns is shared, and the same as long as its content is.
func (g *Engines) weigh(now time.Duration, cs []Candidate, cfg *EngineConfig, unit Unit, model string, fixed bool) ([]Candidate, int) {
	key := engineKey{&cs[0], cfg, unit, g.adapter(model), fixed}
	l := g.lists[key]
	if l == nil {
		g.makeRoom(len(cs))
		l = &engineList{of: cs}
		g.lists[key] = l
	}
	l.used = now
	if l.version == g.version && now < l.until {
		return l.out, l.fresh
	}
	g.sweep(now)
	out, fresh := g.weighed(now, cs, cfg, unit, key.adapter, fixed)
	if !slices.Equal(out, l.out) {
		l.out = g.made.keep(now, out)
	}
	l.fresh, l.version, l.until = fresh, g.version, now+refreshEvery
	return l.out, fresh
}

// sweep forgets lists that are not used any more.
func (g *Engines) sweep(now time.Duration) {
	if now-g.swept < listAge/10 {
		return
	}
	g.swept = now
	clear(g.configs)
	for key, l := range g.lists {
		if now-l.used > listAge {
			delete(g.lists, key)
			continue
		}
		g.configs[*key.cfg] = key.cfg
	}
	g.made.sweep(now)
}

// shared returns the configuration, the same for the same content: so that those that say the same share their lists.
func (g *Engines) shared(cfg *EngineConfig) *EngineConfig {
	if known := g.configs[*cfg]; known != nil {
		return known
	}
	g.configs[*cfg] = cfg
	return cfg
}

func (g *Engines) weighed(now time.Duration, cs []Candidate, cfg *EngineConfig, unit Unit, adapter uint64, fixed bool) ([]Candidate, int) {
	var told []*engine // of each candidate, nil without a fresh reading
	fresh, awake := 0, 0
	for i := range cs {
		e := g.known[cs[i].Addr]
		if !e.fresh(now, cfg.StaleAfter) {
			e = nil
		} else {
			fresh++
		}
		if e == nil || !e.asleep() {
			awake++
		}
		told = append(told, e)
	}
	if fresh == 0 {
		return cs, 0
	}
	w := weighing{g: g, cfg: cfg, adapter: adapter, scale: 1, unit: unit}
	if unit == Tokens {
		w.scale = coarse(max(1, g.size), 3)
	}
	if cfg.Learn && !fixed {
		w.speed = g.usualSpeed(cs)
	}
	out := make([]Candidate, 0, len(cs))
	kept := told[:0]
	for i, e := range told {
		if e != nil && e.asleep() && awake > 0 {
			continue
		}
		out, kept = append(out, cs[i]), append(kept, e)
	}
	if cfg.Order != ByLoad {
		fresh = w.byTarget(out, kept)
	} else {
		w.byLoad(out, kept)
	}
	for i := range out { // what hardly differs is the same list, which stores know already
		out[i].Base, out[i].Capacity, out[i].Weight = coarse(out[i].Base, 8), coarse(out[i].Capacity, 8), coarse(out[i].Weight, 8)
	}
	return out, fresh
}

// coarse rounds to so many binary digits behind the first.
func coarse(x float64, digits uint) float64 {
	return math.Float64frombits(math.Float64bits(x) &^ (1<<(52-digits) - 1))
}

// usualSpeed returns the speed of the engine in the middle of those whose speed is known, 0 if there are none. One that
// tells nonsense does not move it.
func (g *Engines) usualSpeed(cs []Candidate) float64 {
	var speeds []float64
	for i := range cs {
		if s := g.known[cs[i].Addr].speed(); s > 0 {
			speeds = append(speeds, s)
		}
	}
	return median(speeds)
}

// weighing is what the costs of one list have in common.
type weighing struct {
	g       *Engines
	cfg     *EngineConfig
	unit    Unit
	scale   float64 // of a request, in the unit
	speed   float64 // of the engine in the middle; 0: none is learned
	adapter uint64
}

// byLoad gives the candidates the cost of being served late:
//
//	(running * (load + foreign) + queue * waiting) / weight + kv * use + lora
//
// load is counted by the store at the moment of the reservation, so what was reserved and released since the engine
// spoke is in it. waiting is how much of it is more than the engine has room for.
func (w *weighing) byLoad(cs []Candidate, told []*engine) {
	use := meanUse(told)
	var foreign, beside, rooms []float64
	for _, e := range told {
		if e == nil {
			continue
		}
		if room, known := w.room(e); known {
			rooms = append(rooms, room)
		}
	}
	usualRoom := math.Inf(1)
	if len(rooms) > 0 {
		usualRoom = median(rooms)
	}
	for i, e := range told {
		c := &cs[i]
		c.Slope = w.cfg.Weights.Running
		c.Base = w.handicap(c.Base, usualRoom)
		if w.speed > 0 {
			c.Weight *= capacity(w.g.known[c.Addr].speed(), w.speed)
		}
		if e == nil {
			continue
		}
		if room, known := w.room(e); known {
			c.Capacity, c.OverSlope = room, w.cfg.Weights.Queue
		}
		used, known := e.Value(metrics.KVUse)
		if !known {
			used = use
		}
		own := w.scale * (w.cfg.Weights.KVCache*used + w.cfg.Weights.LoRA*w.lora(e, c.Addr))
		foreign, beside = append(foreign, e.foreign), append(beside, own)
		c.Base += w.scale*w.cfg.Weights.Running*e.foreign/c.Weight + own
	}
	usual, usually := median(foreign), median(beside)
	for i, e := range told {
		if c := &cs[i]; e == nil {
			c.Base += w.scale*w.cfg.Weights.Running*usual/c.Weight + usually
		}
	}
}

// handicap returns what a load costs where no more than the usual room is; it may be below 0.
func (w *weighing) handicap(load, room float64) float64 {
	cost := cmp.Or(w.cfg.Weights.Running, w.cfg.Weights.Queue) * load
	if load > room {
		cost += w.cfg.Weights.Queue * (load - room)
	}
	return cost
}

// median returns the median of xs, 0 for none: one that is overloaded, or wrong, does not move it.
func median(xs []float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	slices.Sort(xs)
	return xs[(len(xs)-1)/2]
}

// meanUse returns the mean use of the KV caches of the engines that tell it.
func meanUse(told []*engine) float64 {
	sum, n := 0.0, 0.0
	for _, e := range told {
		if e == nil {
			continue
		}
		if use, known := e.Value(metrics.KVUse); known {
			sum, n = sum+use, n+1
		}
	}
	return sum / max(1, n)
}

// room returns the load of ours up to which no request waits, in the unit.
func (w *weighing) room(e *engine) (room float64, known bool) {
	room, known = e.room()
	room *= w.scale
	if w.unit == Tokens {
		if fit, told := e.tokenRoom(w.scale); told && (!known || fit < room) {
			return fit, true
		}
	}
	return room, known
}

// lora returns what it costs to have the adapter there, from 0 where it is in the batch to 1 where it must take
// another's place. Engines tell of adapters whose requests run, and do so late; what this VM has sent there may wait,
// and counts at once.
func (w *weighing) lora(e *engine, addr string) float64 {
	ours := w.g.ours[addr]
	if w.adapter == 0 || e.Loaded.Has(w.adapter) || ours[w.adapter] > 0 {
		return 0
	}
	there := e.Loaded.N
	for id := range ours {
		if !e.Loaded.Has(id) {
			there++
		}
	}
	most, told := e.Value(metrics.MaxAdapters)
	switch { // vLLM's two lists are always equal
	case !told || float64(there) < most:
		return 0.2
	case e.Waiting.Has(w.adapter):
		return 0.4
	}
	return 1
}

// byTarget gives the candidates the value of one metric as their cost, or its growth per second if it is a counter, and
// returns how many have told it. A request that came since the engines spoke costs as much as there is of the metric
// for each in flight: it counts in the same coin, whatever that is. What an engine's requests that have ended have left
// of it, nobody knows.
func (w *weighing) byTarget(cs []Candidate, told []*engine) int {
	at := slices.Index(w.g.targets, w.cfg.Target)
	if at < 0 {
		return 0
	}
	values, n := w.targets(at, told)
	if n == 0 {
		return 0
	}
	sum, all, inflight := 0.0, 0.0, 0.0
	for i, e := range told {
		if v := values[i]; !math.IsNaN(v) {
			sum, all = sum+v, all+math.Abs(v)
			inflight += float64(e.Inflight.Requests)
		}
	}
	coin := all / max(inflight, float64(n))
	if coin == 0 {
		coin = 1
	}
	for i, e := range told {
		c, v := &cs[i], values[i]
		if math.IsNaN(v) {
			v = sum / float64(n)
		}
		if w.cfg.Order == MostTarget {
			v = -v
		}
		const settles = 1e-3 // equal values go by load
		// One that fails, or has just come, is as if it had more.
		c.Base = v + coin*(c.Base/w.scale+1/c.Weight-1+c.ZonePenalty)
		c.ZonePenalty = 0
		c.Slope, c.OverSlope = settles*coin/w.scale, coin/w.scale
		c.Capacity = w.scale
		if e != nil && e.Counted {
			c.Capacity += e.Inflight.in(w.unit)
		}
	}
	return n
}

// targets returns the value of a target for each engine, NaN where there is none, and how many there are. A value that
// would win against all is bounded by the one in the middle: the best that an engine can be is idle, or eight times as
// good as the usual one.
func (w *weighing) targets(at int, told []*engine) (values []float64, n int) {
	values = make([]float64, len(told))
	var known []float64
	for i, e := range told {
		values[i] = math.NaN()
		if e == nil {
			continue
		}
		if v, ok := e.target(at); ok {
			values[i] = v
			known = append(known, v)
		}
	}
	const best = 8
	usual := median(known)
	for i, v := range values {
		switch {
		case w.cfg.Order == LeastTarget:
			values[i] = max(v, best*min(usual, 0))
		case usual != 0:
			values[i] = min(v, best*max(usual, 0))
		}
	}
	return values, len(known)
}

// target returns the value of a target, or its growth per second if it is a counter.
func (e *engine) target(i int) (float64, bool) {
	v, ok := e.Value(metrics.Target(i))
	if ok && e.Grows(metrics.Target(i)) {
		return e.rates[i], e.rated>>i&1 == 1
	}
	return v, ok
}
