package snapshot

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Source is where a gateway can be asked.
type Source struct {
	Name    string // unique among the sources of a reader
	Region  string
	Admin   string // URL of its administration: http://host:15000, or unix:/path/of/its/socket; "" if it has none
	Inspect string // URL of the plugin's API, with its path; "" if it is not switched on
	Token   string // for that API
}

// Reader asks gateways and Redis what they know. Only one of its methods may run at a time.
type Reader struct {
	program string
	asked   []*gateway
	redis   *RedisSource
	now     func() time.Time
}

// gateway is a source with what is kept of it.
type gateway struct {
	Source
	admin, inspect http.Client
	dump           *dump     // the latest one, which must not be changed
	dumpedAt       time.Time // when it was asked for, with or without success
	toldMS         int64     // time of the latest state
	refused        error     // what the API was last answered instead of a state, nil for nothing
	refusedAt      time.Time // when that was
	balances       bool      // by itself: it has no statistics of the plugin
	counted        []string  // clusters of which the plugin counts requests
}

const (
	// timeout is how long one answer may take.
	timeout = 2 * time.Second
	// dumpPeriod is how long [Reader.Watch] believes in a dump of configurations. That of a mesh takes its gateway
	// about a second, in which it does nothing else.
	dumpPeriod = 30 * time.Second
	// refusedPeriod is how long [Reader.Watch] believes that the plugin's API is not there. Until then the gateway
	// would send calls to it, with their token, to model servers.
	refusedPeriod = 30 * time.Second
)

// NewReader returns a reader of the gateways and of Redis, nil for none. program is the version of the caller.
func NewReader(program string, gateways []Source, redis *RedisSource) *Reader {
	r := &Reader{program: program, redis: redis, now: time.Now}
	for _, s := range gateways {
		r.asked = append(r.asked, &gateway{Source: s, admin: newClient(s.Admin), inspect: newClient(s.Inspect)})
	}
	return r
}

// Take asks for all that is known. What cannot be read is a problem of the snapshot.
func (r *Reader) Take(ctx context.Context) *Snapshot {
	s := r.read(ctx, 0)
	if r.redis != nil {
		s.Redis = r.redis.read(ctx, r.scopes(s))
	}
	return s
}

// Watch asks gateways for what changes all the time, in the clusters that the plugin counts or without any in all of
// them, and for the decisions since the last answer. Redis is not asked, and configurations only for the policies of
// gateways without the plugin; these may be half a minute old.
func (r *Reader) Watch(ctx context.Context) *Snapshot {
	s := r.read(ctx, dumpPeriod)
	for i := range s.Gateways {
		s.Gateways[i].Configs = nil
	}
	return s
}

// read asks all gateways at once, for configurations only if those at hand are older than maxAge.
func (r *Reader) read(ctx context.Context, maxAge time.Duration) *Snapshot {
	s := &Snapshot{Format: Format, Program: r.program, At: r.now(), Gateways: make([]Gateway, len(r.asked))}
	var all sync.WaitGroup
	for i, g := range r.asked {
		all.Add(1)
		go func() {
			defer all.Done()
			s.Gateways[i] = g.read(ctx, s.At, maxAge)
		}()
	}
	all.Wait()
	return s
}

// read asks one gateway for everything at once: the parts are as close in time as they can be.
func (g *gateway) read(ctx context.Context, now time.Time, maxAge time.Duration) Gateway {
	out := Gateway{Name: g.Name, Region: g.Region}
	var (
		mu   sync.Mutex
		all  sync.WaitGroup
		part = func(what string, read func() error) {
			all.Add(1)
			go func() {
				defer all.Done()
				if err := read(); err != nil {
					mu.Lock()
					defer mu.Unlock()
					out.Problems = append(out.Problems, what+": "+err.Error())
				}
			}()
		}
	)
	if g.Admin != "" {
		part("server", func() (err error) { out.Server, err = g.server(ctx); return err })
		part("clusters", func() (err error) { out.Clusters, err = g.clusters(ctx, maxAge > 0); return err })
		part("statistics", func() (err error) { out.Statistics, err = g.statistics(ctx); return err })
		if maxAge == 0 || g.balances && now.Sub(g.dumpedAt) >= maxAge {
			g.dumpedAt = now
			part("configurations", func() (err error) { g.dump, err = g.configurations(ctx); return err })
		}
	}
	switch {
	case g.Inspect == "":
	case maxAge > 0 && g.refused != nil && now.Sub(g.refusedAt) < refusedPeriod:
		part("state", func() error { return g.refused })
	default:
		since := g.toldMS
		if maxAge == 0 {
			since = 0
		}
		part("state", func() (err error) { out.State, err = g.state(ctx, since); g.note(now, err); return err })
	}
	all.Wait()
	slices.Sort(out.Problems)
	if out.Statistics != nil {
		g.balances, g.counted = len(out.Statistics) == 0, out.counted()
	}
	if out.State != nil {
		g.toldMS = out.State.AtMS
	}
	if g.dump != nil {
		out.Configs = g.dump.plugin
		for i := range out.Clusters {
			out.Clusters[i].Policy = g.dump.policies[out.Clusters[i].Name]
		}
	}
	return out
}

// note notes what the API was answered: only a status says that there is something else than the plugin, or that the
// token is wrong.
func (g *gateway) note(now time.Time, err error) {
	g.refused = nil
	if status := statusError(0); errors.As(err, &status) && status < http.StatusInternalServerError {
		g.refused, g.refusedAt = err, now
	}
}

// counted returns the clusters of which the plugin counts requests, sorted.
func (g *Gateway) counted() []string {
	names := map[string]bool{}
	for _, s := range g.Statistics {
		if c := s.Labels["cluster"]; c != "" {
			names[c] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}
