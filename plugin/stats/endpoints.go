package stats

import (
	"strings"

	"github.com/warmgate/warmgate/internal/statname"
	"github.com/warmgate/warmgate/plugin/measured"
)

const (
	// maxEndpoints is how many have counters, of all that have ever been there: addresses change whenever a server is
	// replaced. Each has four counters, and one for each outcome.
	maxEndpoints = 1024
	// maxActive is how many of a cluster are counted at a time. Where there are more, one that has had no request for
	// idleBeats seconds makes room for another.
	maxActive = 64
	idleBeats = 60
)

// endpoints are the counters by endpoint.
type endpoints struct {
	known  map[server]*served
	active map[string]*crowd // by cluster
	beats  int64             // calls of flush
}

type server struct{ cluster, endpoint string }

// served is what an endpoint has served.
type served struct {
	server
	active bool // among the maxActive of its cluster
	usedAt int64
	ended  [measured.Outcomes]counter

	// of streams with output
	streams, tokens counter
	prefill, decode counter // durations
}

// crowd is the endpoints of a cluster that are counted.
type crowd struct {
	active []*served
	asked  int64 // when one was last looked for that is idle
}

func newEndpoints() *endpoints {
	return &endpoints{known: map[server]*served{}, active: map[string]*crowd{}}
}

// measure counts a request at the endpoint that has served it. cluster is the label of its cluster. It returns false if
// the endpoint is not counted.
func (e *endpoints) measure(cluster string, m *measured.Request) bool {
	if m.Endpoint == "" {
		return true
	}
	of := e.known[server{cluster, m.Endpoint}]
	if of == nil || !of.active {
		if of = e.admit(of, cluster, m.Endpoint); of == nil {
			return false
		}
	}
	of.usedAt = e.beats
	of.ended[m.Outcome].n++
	if !hasOutput(m) {
		return true
	}
	if m.Prefill > 0 { // else it was tried before, elsewhere for all that is known
		of.streams.n++
		of.prefill.n += int64(m.Prefill)
	}
	if m.Decode > 0 { // else all has come at once
		of.decode.n += int64(m.Decode)
		of.tokens.n += max(m.Tokens.Completion()-1, 0)
	}
	return true
}

// admit has an endpoint counted from now on, if there is room. of is it, nil if it has never been counted.
func (e *endpoints) admit(of *served, cluster, endpoint string) *served {
	if of == nil && len(e.known) >= maxEndpoints {
		return nil
	}
	c := e.active[cluster]
	if c == nil {
		c = &crowd{}
		e.active[strings.Clone(cluster)] = c
	}
	place := len(c.active)
	if place < maxActive {
		c.active = append(c.active, nil)
	} else if place = c.idle(e.beats); place < 0 {
		return nil
	} else {
		c.active[place].active = false
	}
	if of == nil {
		of = &served{server: server{strings.Clone(cluster), strings.Clone(endpoint)}}
		e.known[of.server] = of
	}
	of.active, c.active[place] = true, of
	return of
}

// idle returns the place of an endpoint that has had no request for long, -1 if there is none. It looks for one once a
// second.
func (c *crowd) idle(now int64) int {
	if c.asked == now {
		return -1
	}
	for i, of := range c.active {
		if now-of.usedAt > idleBeats {
			return i
		}
	}
	c.asked = now
	return -1
}

// flush gives the gateway what was counted.
func (e *endpoints) flush(m Metrics) {
	for _, c := range e.active {
		for _, of := range c.active {
			if of.usedAt == e.beats {
				of.flush(m)
			}
		}
	}
	e.beats++
}

func (s *served) flush(m Metrics) {
	for o := range s.ended {
		s.ended[o].flush(m, func() string {
			return statname.With(EndpointRequests, "cluster", s.cluster, "endpoint", s.endpoint,
				"outcome", measured.Outcome(o).String())
		})
	}
	s.streams.flush(m, func() string { return OfEndpoint(EndpointStreams, s.cluster, s.endpoint) })
	s.tokens.flush(m, func() string { return OfEndpoint(EndpointTokens, s.cluster, s.endpoint) })
	s.prefill.flushMillis(m, func() string { return OfEndpoint(EndpointPrefill, s.cluster, s.endpoint) })
	s.decode.flushMillis(m, func() string { return OfEndpoint(EndpointDecode, s.cluster, s.endpoint) })
}
