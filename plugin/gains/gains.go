// Package gains says in statistics what was gained: what cached tokens have saved, what least_request would have done.
// The VMs of a process report what happens to their requests, and one of them counts what comes of it: package
// lb/gains.
package gains

import (
	"math"
	"time"

	"github.com/warmgate/warmgate/internal/statname"
	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
	lbgains "github.com/warmgate/warmgate/lb/gains"
	"github.com/warmgate/warmgate/plugin/clusters"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/measured"
	"github.com/warmgate/warmgate/plugin/process"
	"github.com/warmgate/warmgate/plugin/stats"
)

const (
	// every is how often VMs report, and one of them reads that.
	every = time.Second
	// slack is how much longer workers wait than the main thread's VM before one of them takes over.
	slack = 2 * time.Second
	// maxLog bounds what is reported and not read yet.
	maxLog = 1 << 20
	// tries is how often a VM tries to report while others are faster. It goes on a second later.
	tries = 8
	// native is the policy that the real one is compared with.
	native = "least_request"
)

// Gains is the part of a VM that reports what happens to its requests, and perhaps counts what was gained.
type Gains struct {
	*host.Env
	known      clusters.Known
	leader     process.Leadership
	ledger     *lbgains.Ledger // nil while another VM has it
	unreported []byte          // batches that are not in the log yet
}

// New returns the part of the VM of that owner.
func New(e *host.Env, known clusters.Known, owner uint64) *Gains {
	return &Gains{Env: e, known: known, leader: process.Leadership{
		KV: e.GW.KV(), ID: owner, Key: process.KeyGainer, Slack: slack,
	}}
}

// Learn takes over what was measured of a request that is over, and was sent to where it was to be sent: load requests
// were there then.
func (g *Gains) Learn(cl *clusters.Cluster, m *measured.Request, load int64) {
	if m.Model == "" || m.Tokens.Estimated {
		return
	}
	model := g.Stats.ModelLabel(m.Model)
	if m.Tokens.Cached > 0 {
		cl.Flights.Cached(model, m.Tokens.Cached)
	}
	if m.Streamed && m.Prefill > 0 && m.Tokens.Input > 0 {
		cl.Flights.Prefill(model, lbgains.Prefill{
			At: g.Clock(), Tokens: float64(m.Tokens.Input), Took: m.Prefill.Seconds(), Load: float64(load),
		})
	}
}

// Tick is called every second.
func (g *Gains) Tick(now time.Duration) {
	g.report(now)
	if leads, _ := g.leader.Lead(now, every, g.Serves); !leads {
		g.ledger = nil
		return
	}
	if g.ledger == nil {
		g.ledger = lbgains.NewLedger(g.leader.ID)
	}
	g.read(now)
	g.ledger.Advance(now)
	for name, of := range g.ledger.Clusters {
		g.show(name, of)
	}
}

// report appends what has happened to the requests of this VM to the log.
func (g *Gains) report(now time.Duration) {
	out := wire.Writer(g.unreported)
	for name, cl := range g.known {
		if c := cl.Latest; c != nil && cl.Flights.Active() && len(out) < maxLog {
			out = cl.Flights.Append(out, g.leader.ID, name, c.Policy, placesOf(now, cl, c))
		}
	}
	if g.unreported = out; len(out) == 0 {
		return
	}
	kv := g.GW.KV()
	for range tries {
		log, cas, err := kv.Get(process.KeyFlights)
		if err != nil {
			break
		}
		if len(log)+len(out) > maxLog { // nobody reads it: what is lost shows in the numbers of the batches
			g.unreported = g.unreported[:0]
			return
		}
		if len(log) == 1 { // the gateway keeps no empty value
			log = log[:0]
		}
		if kv.Set(process.KeyFlights, append(log, out...), cas) == nil {
			g.unreported = g.unreported[:0]
			return
		}
	}
}

// read takes the log over.
func (g *Gains) read(now time.Duration) {
	kv := g.GW.KV()
	for range tries {
		log, cas, err := kv.Get(process.KeyFlights)
		if err != nil || len(log) <= 1 {
			return
		}
		if kv.Set(process.KeyFlights, []byte{0}, cas) == nil {
			g.ledger.Read(now, log)
			return
		}
	}
}

// placesOf returns the endpoints of a cluster that get requests, with how many each runs at once. Where requests are
// counted in Redis other gateways send theirs to the same endpoints, so what is free there is not known here.
func placesOf(now time.Duration, cl *clusters.Cluster, c *config.Config) []lbgains.Place {
	var list []lbgains.Place
	most := 0
	for _, view := range cl.Views {
		for i := range view.Endpoints {
			e := &view.Endpoints[i]
			if e.State != lb.Healthy && e.State != lb.Degraded || cl.Health.IsEjected(now, e.Addr) {
				continue
			}
			p := lbgains.Place{Addr: e.Addr}
			if !c.UsesRedis() {
				p.Slots = slotsOf(cl, c, p.Addr)
			}
			most = max(most, p.Slots)
			list = append(list, p)
		}
	}
	for i := range list {
		if list[i].Slots == 0 { // it has never had more than it runs, so it runs as many as the others at least
			list[i].Slots = most
		}
	}
	return list
}

// slotsOf returns how many requests an endpoint runs at once, 0 if that is not known: as its metrics show, else as
// answers have, else its cap.
func slotsOf(cl *clusters.Cluster, c *config.Config, addr string) int {
	if n, known := cl.Engines.Slots(addr); known && n >= 1 {
		return int(math.Round(n))
	}
	if n, known := cl.Limits.Limit(addr); known && cl.Pending {
		return int(n)
	}
	return c.MaxInflight
}

// show shows what was gained in a cluster.
func (g *Gains) show(name string, of *lbgains.Cluster) {
	got := of.Worlds.Take()
	for _, p := range []struct {
		result string
		n      uint64
	}{{"same", got.Same}, {"elsewhere", got.Elsewhere}} {
		if got.Same+got.Elsewhere > 0 {
			g.Stats.CountIf(statname.With(stats.NativePicks, "cluster", name, "result", p.result), p.n)
		}
	}
	if of.Worlds.Tells() {
		for k, policy := range []string{of.Policy, native} {
			g.Stats.CountIf(statname.With(stats.IdleWait, "cluster", name, "policy", policy), got.Idle[k])
			g.Stats.CountIf(statname.With(stats.SlotWait, "cluster", name, "policy", policy), got.Vacant[k])
		}
	}
	for model, m := range of.Models {
		seconds, _, known := m.PerToken()
		if speed := statname.With(stats.PrefillSpeed, "cluster", name, "model", model); known {
			g.Stats.SetIf(speed, uint64(math.Round(1/seconds)))
		} else if g.Stats.Has(speed) {
			g.Stats.Set(speed, 0)
		}
		if saved := statname.With(stats.SavedPrefill, "cluster", name, "model", model); known || g.Stats.Has(saved) {
			g.Stats.CountIf(saved, m.Take())
		}
	}
}
