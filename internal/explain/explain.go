// Package explain asks the plugin what it would do with a request, without a gateway: the plugin's own code runs in a
// gateway that has no network and in which time is moved by hand, with the endpoints, loads and metrics that are given.
package explain

import (
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/warmgate/warmgate/internal/state"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/memstore"
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/core"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/stores"
	"github.com/warmgate/warmgate/plugin/vm"
)

// Question is a request, and what is known of the gateway that would have it.
type Question struct {
	Config []byte // of the plugin, which it accepts
	Host   config.Host

	State   state.State        // of the gateway: its clusters, with what is in flight, and the time
	Zone    string             // where it is
	Cached  map[string]float64 // by endpoint: how much of the prompt it has, from 0 to 1
	Cluster string             // to which the request is routed
	Route   string             // its name, for rules that go by it
	Seed    uint64             // of random draws

	Headers [][2]string // with :method, :path and :authority
	Body    []byte
}

// ErrNoEndpoints is returned when nothing is known that could be chosen.
var ErrNoEndpoints = errors.New("no endpoint is known")

const (
	// tick is how far time is moved at once while metrics are read.
	tick = 100 * time.Millisecond
	// settling is how long they are read before the oldest page: the plugin compares several.
	settling = 3 * time.Second
)

// Ask returns what the plugin would do with the request.
func Ask(q *Question) (*state.Explanation, error) {
	g := newGateway(uint64(max(0, q.State.AtMS)), q.Seed)
	for i := range q.State.Clusters {
		g.add(&q.State.Clusters[i], lb.Zone{Name: q.Zone})
	}
	a := asking{Question: q, gateway: g}
	if len(g.pages) > 0 {
		g.now -= a.oldest() + settling
	}
	a.vm = vm.New(g, q.Host)
	a.plugin = a.vm.NewPlugin(1).OnStart(func() (string, []byte) { return "warmgate", q.Config })
	if a.plugin == nil || a.plugin.Set == nil {
		return nil, errors.New("the plugin refuses the configuration")
	}
	if !a.useConfig() {
		return nil, ErrNoEndpoints
	}
	if err := a.count(); err != nil {
		return nil, err
	}
	a.pass()
	if len(q.Cached) > 0 {
		_, s := a.try()
		a.record(s.Plans())
	}
	e, _ := a.try()
	if e == nil {
		return nil, errors.New("the plugin does not decide about the request")
	}
	return e, nil
}

// asking is a question that is being asked.
type asking struct {
	*Question
	gateway *gateway
	vm      *vm.VM
	plugin  *vm.Plugin
	others  *memstore.Store // which counts what is in flight
}

// oldest returns the age of the oldest page of metrics.
func (a *asking) oldest() (age time.Duration) {
	for _, p := range a.gateway.pages {
		age = max(age, start-p.until)
	}
	return age
}

// useConfig takes over the endpoints that the configuration lists, and has it count here what it would count in Redis.
// It reports whether there is something to choose from.
func (a *asking) useConfig() (known bool) {
	known = len(a.gateway.views) > 0
	for _, c := range a.plugin.Set.All() {
		c.Store = config.StoreLocal
		known = known || c.AmongClusters()
		if list := c.EnvoyCfg.Endpoints; len(list) > 0 && a.gateway.views[a.Cluster] == nil {
			cluster := state.Cluster{Name: a.Cluster}
			for _, e := range list {
				cluster.Endpoints = append(cluster.Endpoints, state.Endpoint{Addr: e.Addr, Weight: e.Weight})
			}
			a.gateway.add(&cluster, lb.Zone{Name: a.Zone})
			known = true
		}
	}
	return known
}

// maxInflight bounds how many requests may be in flight: each is counted by itself.
const maxInflight = 1_000_000

// count counts what is in flight.
func (a *asking) count() error {
	a.others = memstore.New(a.gateway.shared, a.vm.Stores.Owner+1, stores.LeaseTTL)
	id := lb.LeaseID(0)
	for i := range a.State.Clusters {
		c := &a.State.Clusters[i]
		for j := range c.Endpoints {
			e := &c.Endpoints[j]
			for n := e.Requests; n > 0; n-- {
				if id++; id > maxInflight {
					return errors.New("more requests are in flight than can be counted here")
				}
				tokens := e.Tokens*n/e.Requests - e.Tokens*(n-1)/e.Requests
				if err := a.others.CountAt(a.gateway.now, id, c.Name, e.Addr, tokens); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// pass lets time pass until now, in which metrics are read. That is done for those clusters alone that have requests.
func (a *asking) pass() {
	for i := 0; a.gateway.now < start; i++ {
		if i%10 == 0 && len(a.gateway.pages) > 0 {
			a.try()
		}
		a.gateway.now = min(a.gateway.now+tick, start)
		_ = a.others.Heartbeat(a.gateway.now) // the memory never fails
		a.plugin.OnTick()
	}
}

// try asks the plugin.
func (a *asking) try() (e *state.Explanation, s *core.Stream) {
	path, headers := "", slices.Clone(a.Headers)
	for _, h := range headers {
		if h[0] == ":path" {
			path = h[1]
		}
	}
	if len(a.Body) > 0 {
		headers = append(headers, [2]string{"content-length", strconv.Itoa(len(a.Body))})
	}
	a.gateway.draws = 0
	s = core.NewStream(a.plugin, 2, &stream{a.Cluster, a.Route, headers, a.Body})
	s.Explain(path, func(got *state.Explanation) { e = got })
	if s.OnRequestHeaders(len(a.Body) == 0) == host.Hold && e == nil {
		s.OnRequestBody(len(a.Body), true)
	}
	s.OnDone()
	return e, s
}

// record notes how much of the prompt endpoints have.
func (a *asking) record(plans []*lb.Plan) {
	for _, p := range plans {
		for addr, share := range a.Cached {
			part := *p
			n := slices.IndexFunc(p.Prefix.Blocks, func(b prompt.Block) bool {
				return float64(b.End) > share*float64(p.Prefix.Bytes)
			})
			if n < 0 {
				n = len(p.Prefix.Blocks)
			}
			part.Prefix.Blocks = p.Prefix.Blocks[:n]
			a.others.RecordPrompt(a.gateway.now, 0, &part, addr)
		}
	}
}
