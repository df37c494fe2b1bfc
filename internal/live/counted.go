package live

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/warmgate/warmgate/internal/snapshot"
	"github.com/warmgate/warmgate/internal/state"
	"github.com/warmgate/warmgate/lb"
)

// counted is what a gateway and the plugin in it count.
type counted struct {
	gateway *snapshot.Gateway
	stats   map[string][]series // by their names
	hosts   *rates
}

// series is a statistic with by how much it has grown per second, if it is a counter.
type series struct {
	snapshot.Statistic
	perS float64
}

// index takes the growth of all series, also of those that are not shown yet.
func index(all []snapshot.Statistic, r *rates) map[string][]series {
	by := map[string][]series{}
	for _, s := range all {
		by[s.Name] = append(by[s.Name], series{s, r.of(fmt.Sprint(s.Name, s.Labels), s.Value)})
	}
	return by
}

// sum returns the sum of a statistic over all series with the label, "" for all there are.
func (c *counted) sum(name, label, value string) (sum float64) {
	for _, s := range c.stats[name] {
		if label == "" || s.Labels[label] == value {
			sum += s.Value
		}
	}
	return sum
}

// perS returns by how much all series of a counter for whose labels is holds have grown, per second.
func (c *counted) perS(name string, is func(labels map[string]string) bool) (sum float64) {
	for _, s := range c.stats[name] {
		if is(s.Labels) {
			sum += s.perS
		}
	}
	return sum
}

// with returns what holds for labels of which one has the value.
func with(label, value string) func(labels map[string]string) bool {
	return func(labels map[string]string) bool { return labels[label] == value }
}

func (c *counted) version() string {
	for _, s := range c.stats["warmgate_build_info"] {
		if s.Value == 1 {
			return s.Labels["version"]
		}
	}
	return ""
}

// remarks returns what a gateway says of itself that whoever looks at it should know.
func (c *counted) remarks() (out []string) {
	if s := c.gateway.Server; s != nil && s.State != "LIVE" {
		out = append(out, "the gateway is in the state "+s.State)
	}
	if s := c.gateway.State; s != nil {
		if s.LeftOut > 0 {
			out = append(out, fmt.Sprintf("%d more clusters are not shown", s.LeftOut))
		}
		for i := range s.Clusters {
			if n := s.Clusters[i].LeftOut; n > 0 {
				out = append(out, fmt.Sprintf("%d more endpoints of %s are not shown", n, s.Clusters[i].Name))
			}
		}
	}
	return out
}

// reasons returns how requests were decided.
func (c *counted) reasons() (out []Reason) {
	for _, s := range c.stats["warmgate_decisions_total"] {
		policy, reason := s.Labels["policy"], s.Labels["reason"]
		out = append(out, Reason{Policy: policy, Reason: reason, Total: int64(s.Value), PerS: s.perS})
	}
	slices.SortStableFunc(out, func(a, b Reason) int {
		return cmp.Or(cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Reason, b.Reason))
	})
	return out
}

// regions returns the other regions, by the state or by statistics.
func (c *counted) regions() (out []Region) {
	if s := c.gateway.State; s != nil {
		for _, r := range s.Regions {
			out = append(out, Region{Name: r.Name, Available: r.Available, Adopted: r.Adopted, RTTMS: r.RTTMS})
		}
	} else {
		for _, s := range c.stats["warmgate_region_available"] {
			name := s.Labels["region"]
			out = append(out, Region{
				Name: name, Available: s.Value == 1, Adopted: c.sum("warmgate_region_adopted", "region", name) == 1,
				RTTMS: int64(c.sum("warmgate_region_rtt_ms", "region", name)),
			})
		}
	}
	for i := range out {
		here := with("region", out[i].Name)
		out[i].ForwardedS = c.perS("warmgate_region_forwarded_total", here)
		out[i].ServedS = c.perS("warmgate_region_served_total", here)
	}
	return out
}

// clusters returns those that the plugin shows, else those of which it counts requests, and for a gateway without it
// all that have endpoints.
func (c *counted) clusters() []Cluster {
	out := []Cluster{}
	if s := c.gateway.State; s != nil {
		for i := range s.Clusters {
			out = append(out, c.shown(&s.Clusters[i]))
		}
	} else {
		by := map[string]bool{}
		for _, s := range c.stats["warmgate_inflight_requests"] {
			by[s.Labels["cluster"]] = true
		}
		for i := range c.gateway.Clusters {
			admin := &c.gateway.Clusters[i]
			if by[admin.Name] || len(c.stats) == 0 && len(admin.Hosts) > 0 {
				out = append(out, c.told(admin))
			}
		}
	}
	sole := len(out) == 1
	for i := range out {
		c.flow(&out[i], sole)
	}
	return out
}

// shown is a cluster as the plugin shows it.
func (c *counted) shown(of *state.Cluster) Cluster {
	out := Cluster{
		Name: of.Name, Policy: of.Policy, Unit: of.Unit, Store: of.Store,
		Endpoints: make([]Endpoint, 0, len(of.Endpoints)),
	}
	for i := range of.Endpoints {
		e := &of.Endpoints[i]
		lane := Endpoint{
			Addr: e.Addr, Zone: e.Zone, Health: e.Health, Weight: e.Weight, Requests: e.Requests, Tokens: e.Tokens,
			Cap: e.Cap, PushLimit: e.PushLimit,
		}
		if e.Engine != nil {
			lane.Running, lane.Waiting, lane.KVCache = &e.Engine.Running, &e.Engine.Waiting, &e.Engine.KVCache
		}
		out.Endpoints = append(out.Endpoints, lane)
	}
	for _, class := range of.Classes {
		out.Classes = append(out.Classes, Class{Name: class.Name, Waiting: class.Waiting})
	}
	return out
}

// told is a cluster as the gateway's administration and the statistics tell of it.
func (c *counted) told(of *snapshot.Cluster) Cluster {
	out := Cluster{Name: of.Name, Policy: c.policy(of), Endpoints: make([]Endpoint, 0, len(of.Hosts))}
	for _, h := range of.Hosts {
		out.Endpoints = append(out.Endpoints, Endpoint{
			Addr: h.Addr, Zone: h.Zone, Health: h.Health, Weight: float64(h.Weight), Requests: h.Active,
		})
	}
	gauge := func(name string, set func(e *Endpoint, v int64)) (found bool) {
		for _, s := range c.stats[name] {
			if s.Labels["cluster"] != of.Name {
				continue
			}
			found = true
			for i := range out.Endpoints {
				if e := &out.Endpoints[i]; e.Addr == s.Labels["endpoint"] {
					set(e, int64(s.Value))
				}
			}
		}
		return found
	}
	if gauge("warmgate_inflight_requests", func(e *Endpoint, v int64) { e.Requests = v }) {
		out.Unit, out.Store = "requests", "embedded"
	}
	if gauge("warmgate_inflight_tokens", func(e *Endpoint, v int64) { e.Tokens = v }) {
		out.Unit = "tokens"
	}
	gauge("warmgate_endpoint_push_limit", func(e *Endpoint, v int64) { e.PushLimit = v })
	if up := c.stats["warmgate_redis_up"]; len(up) > 0 && out.Store != "" {
		out.Store = "redis"
		if up[0].Value != 1 {
			out.Store = "fallback"
		}
	}
	for _, s := range c.stats["warmgate_queue_length"] {
		if s.Labels["cluster"] == of.Name {
			out.Classes = append(out.Classes, Class{Name: s.Labels["class"], Waiting: int64(s.Value)})
		}
	}
	slices.SortFunc(out.Classes, func(a, b Class) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// policy returns the only policy under which the plugin has counted decisions, that of the gateway itself if there are
// none, and "" if there are several.
func (c *counted) policy(of *snapshot.Cluster) string {
	names := map[string]bool{}
	for _, s := range c.stats["warmgate_decisions_total"] {
		names[s.Labels["policy"]] = true
	}
	delete(names, "none")
	switch len(names) {
	case 0:
		return of.Policy
	case 1:
		return slices.Collect(maps.Keys(names))[0]
	}
	return ""
}

// flow adds how many requests come, and are refused. Decisions are not counted by cluster: those of the only one that
// there is are its own, of others only what their queues and budgets have refused is known.
func (c *counted) flow(of *Cluster, sole bool) {
	for i := range c.gateway.Clusters {
		if admin := &c.gateway.Clusters[i]; admin.Name == of.Name {
			for _, h := range admin.Hosts {
				of.PerS += c.hosts.ofKnown(of.Name+"/"+h.Addr, float64(h.Total))
			}
		}
	}
	for i := range of.Endpoints { // with lb_type cluster, these are clusters
		of.PerS += c.perS("warmgate_cluster_requests_total", with("cluster", of.Endpoints[i].Addr))
	}
	for i := range of.Classes {
		class := &of.Classes[i]
		class.RefusedS = c.perS("warmgate_queue_refusals_total", func(labels map[string]string) bool {
			return labels["cluster"] == of.Name && labels["class"] == class.Name
		})
	}
	if !sole {
		own := with("cluster", of.Name)
		of.RefusedS = c.perS("warmgate_queue_refusals_total", own) + c.perS("warmgate_budget_refusals_total", own)
		return
	}
	of.RefusedS = c.perS("warmgate_decisions_total", func(labels map[string]string) bool {
		return IsRefusal(labels["reason"])
	})
}

// IsRefusal reports whether requests with a reason get an answer of the gateway's own.
func IsRefusal(reason string) bool {
	for r := lb.ReasonAtCapacity; r <= lb.ReasonNoModel; r++ {
		if r != lb.ReasonLeftQueue && reason == r.String() {
			return true
		}
	}
	return false
}
