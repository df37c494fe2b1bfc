package live

import (
	"cmp"
	"slices"
)

// Sum returns what all gateways of a frame have together, under the name "all". In each region clusters of one name are
// one, and so are their endpoints of one address: what gateways count by themselves is added, what they count together
// in Redis is taken once. Times and shares are means over the gateways, by their requests.
func Sum(f *Frame) Gateway {
	out := Gateway{Name: "all", Clusters: []Cluster{}}
	regions := map[string]bool{}
	for i := range f.Gateways {
		regions[f.Gateways[i].Region] = true
	}
	weights := map[string]*means{}
	for i := range f.Gateways {
		g := &f.Gateways[i]
		out.Up = out.Up || g.Up
		for _, p := range g.Problems {
			out.Problems = append(out.Problems, g.Name+": "+p)
		}
		for j := range g.Clusters {
			c := g.Clusters[j]
			if len(regions) > 1 {
				c.Name += " (" + cmp.Or(g.Region, "no region") + ")"
			}
			m := weights[c.Name]
			if m == nil {
				m = new(means)
				weights[c.Name] = m
			}
			m.add(&c)
			addCluster(&out, &c)
		}
		for _, r := range g.Reasons {
			to := found(&out.Reasons, func(o *Reason) bool { return o.Policy == r.Policy && o.Reason == r.Reason },
				Reason{Policy: r.Policy, Reason: r.Reason})
			to.Total += r.Total
			to.PerS += r.PerS
		}
		for _, r := range g.Regions {
			to := found(&out.Regions, func(o *Region) bool { return o.Name == r.Name },
				Region{Name: r.Name, RTTMS: r.RTTMS})
			to.Available, to.Adopted = to.Available || r.Available, to.Adopted || r.Adopted
			to.RTTMS = min(to.RTTMS, r.RTTMS)
			to.ForwardedS += r.ForwardedS
			to.ServedS += r.ServedS
		}
	}
	for i := range out.Clusters {
		weights[out.Clusters[i].Name].put(&out.Clusters[i])
	}
	return out
}

// found returns the item of a list for which is holds, after adding one if there is none.
func found[T any](list *[]T, is func(*T) bool, add T) *T {
	at := slices.IndexFunc(*list, func(item T) bool { return is(&item) })
	if at < 0 {
		at, *list = len(*list), append(*list, add)
	}
	return &(*list)[at]
}

// addCluster adds a cluster of one gateway.
func addCluster(to *Gateway, c *Cluster) {
	sum := found(&to.Clusters, func(o *Cluster) bool { return o.Name == c.Name }, Cluster{
		Name: c.Name, Policy: c.Policy, Unit: c.Unit, Store: c.Store, Endpoints: []Endpoint{},
	})
	if sum.Policy != c.Policy {
		sum.Policy = ""
	}
	sum.PerS += c.PerS
	sum.RefusedS += c.RefusedS
	together := c.Store == "redis"
	for i := range c.Endpoints {
		addEndpoint(sum, &c.Endpoints[i], together)
	}
	for _, class := range c.Classes {
		of := found(&sum.Classes, func(o *Class) bool { return o.Name == class.Name }, Class{Name: class.Name})
		of.Waiting = joined(of.Waiting, class.Waiting, together)
		of.RefusedS += class.RefusedS
	}
}

// addEndpoint adds an endpoint of one gateway.
func addEndpoint(to *Cluster, e *Endpoint, together bool) {
	sum := found(&to.Endpoints, func(o *Endpoint) bool { return o.Addr == e.Addr }, Endpoint{
		Addr: e.Addr, Zone: e.Zone, Health: e.Health, Weight: e.Weight,
	})
	if sum.Health == "healthy" {
		sum.Health = e.Health
	}
	sum.Requests = joined(sum.Requests, e.Requests, together)
	sum.Tokens = joined(sum.Tokens, e.Tokens, together)
	sum.Cap = joined(sum.Cap, e.Cap, together)
	sum.PushLimit = joined(sum.PushLimit, e.PushLimit, together)
	sum.Running, sum.Waiting = cmp.Or(sum.Running, e.Running), cmp.Or(sum.Waiting, e.Waiting)
	sum.KVCache = cmp.Or(sum.KVCache, e.KVCache)
}

// joined returns a sum, or the larger one of what is counted together.
func joined(a, b int64, together bool) int64 {
	if together {
		return max(a, b)
	}
	return a + b
}

// means are what is averaged of a cluster.
type means struct{ expected, reported, p50, p90 mean }

// mean is a sum of values by their weights.
type mean struct{ sum, weight float64 }

func (m *mean) add(v *float64, weight float64) {
	if v != nil {
		m.sum, m.weight = m.sum+*v*weight, m.weight+weight
	}
}

func (m *mean) value() *float64 {
	if m.weight == 0 {
		return nil
	}
	v := m.sum / m.weight
	return &v
}

// add adds what a gateway has. One without requests in the last second counts for something, too.
func (m *means) add(c *Cluster) {
	m.expected.add(c.Expected, max(c.PerS, 0.1))
	m.reported.add(c.Reported, max(c.PerS, 0.1))
	if q := c.TTFT; q != nil {
		m.p50.add(&q.P50, float64(q.N))
		m.p90.add(&q.P90, float64(q.N))
	}
}

// put writes the means.
func (m *means) put(to *Cluster) {
	to.Expected, to.Reported = m.expected.value(), m.reported.value()
	if p50, p90 := m.p50.value(), m.p90.value(); p50 != nil {
		to.TTFT = &Quantiles{N: int(m.p50.weight), P50: *p50, P90: *p90}
	}
}
