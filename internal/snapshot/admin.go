package snapshot

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warmgate/warmgate/internal/state"
	"github.com/warmgate/warmgate/internal/statname"
)

// How long pages of the administration may be, in bytes. An endpoint takes 1 KiB of the page on clusters.
const (
	mostServer     = 1 << 20
	mostClusters   = 64 << 20
	mostStatistics = 32 << 20
	mostDump       = 64 << 20
	mostState      = 16 << 20
	// maxFilter is up to how many clusters are asked for by their names; of more, all of the gateway are read.
	maxFilter = 64
)

// server reads what the gateway says of its process.
func (g *gateway) server(ctx context.Context) (*Server, error) {
	var page struct {
		Version string
		State   string
		Uptime  string                    `json:"uptime_current_epoch"`
		Options struct{ Concurrency int } `json:"command_line_options"`
	}
	if err := g.adminJSON(ctx, "/server_info", mostServer, &page); err != nil {
		return nil, err
	}
	up, _ := time.ParseDuration(page.Uptime) // in seconds, as in 2s; else it is not known
	return &Server{
		Version: page.Version, State: page.State, UptimeS: int64(up / time.Second), Workers: page.Options.Concurrency,
	}, nil
}

// hostStatus is an endpoint on the page of clusters, in Envoy's JSON of admin/v3/clusters.proto.
type hostStatus struct {
	Address struct {
		Socket struct {
			Address string
			Port    int `json:"port_value"`
		} `json:"socket_address"`
		Pipe     struct{ Path string }
		Internal struct {
			Listener string `json:"server_listener_name"`
			ID       string `json:"endpoint_id"`
		} `json:"envoy_internal_address"`
	}
	Stats []struct {
		Name  string
		Value string
	}
	Health map[string]any `json:"health_status"`
	Weight int
	Zone   struct{ Zone string } `json:"locality"`
}

// clusters reads the gateway's clusters and endpoints, sorted: all, or those that are known to be counted. Older Envoys
// tell of all, whatever they are asked.
func (g *gateway) clusters(ctx context.Context, counted bool) ([]Cluster, error) {
	var page struct {
		Clusters []struct {
			Name  string
			Hosts []hostStatus `json:"host_statuses"`
		} `json:"cluster_statuses"`
	}
	asked := "/clusters?format=json"
	if n := len(g.counted); counted && n > 0 && n <= maxFilter {
		var names []string
		for _, name := range g.counted {
			names = append(names, regexp.QuoteMeta(name))
		}
		asked += "&filter=" + url.QueryEscape("^("+strings.Join(names, "|")+")$")
	}
	if err := g.adminJSON(ctx, asked, mostClusters, &page); err != nil {
		return nil, err
	}
	out := make([]Cluster, 0, len(page.Clusters))
	for _, c := range page.Clusters {
		hosts := make([]Host, 0, len(c.Hosts))
		for i := range c.Hosts {
			hosts = append(hosts, c.Hosts[i].host())
		}
		slices.SortFunc(hosts, func(a, b Host) int { return strings.Compare(a.Addr, b.Addr) })
		out = append(out, Cluster{Name: c.Name, Hosts: hosts})
	}
	slices.SortFunc(out, func(a, b Cluster) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

func (h *hostStatus) host() Host {
	a := &h.Address
	out := Host{Health: h.health(), Weight: h.Weight, Zone: h.Zone.Zone}
	switch {
	case a.Socket.Address != "":
		out.Addr = net.JoinHostPort(a.Socket.Address, strconv.Itoa(a.Socket.Port))
	case a.Internal.Listener != "":
		out.Addr = "envoy://" + a.Internal.Listener + "/" + a.Internal.ID
	default:
		out.Addr = a.Pipe.Path
	}
	for _, s := range h.Stats {
		n, err := strconv.ParseInt(cmp.Or(s.Value, "0"), 10, 64)
		switch {
		case err != nil:
		case s.Name == "rq_active":
			out.Active = n
		case s.Name == "rq_total":
			out.Total = n
		}
	}
	return out
}

// health returns healthy, degraded, draining or unhealthy, the worst of what there is a cause for. Envoy has a member
// for each.
func (h *hostStatus) health() string {
	health := "healthy"
	if h.Health["failed_active_degraded_check"] == true {
		health = "degraded"
	}
	switch v := h.Health["eds_health_status"]; v {
	case "UNHEALTHY", "TIMEOUT":
		return "unhealthy"
	case "DRAINING", "DEGRADED":
		health = strings.ToLower(v.(string))
	}
	for cause, v := range h.Health {
		switch {
		case v != true, cause == "failed_active_degraded_check":
		case strings.HasPrefix(cause, "failed_"), cause == "pending_active_hc",
			cause == "active_hc_timeout", cause == "excluded_via_immediate_hc_fail":
			return "unhealthy"
		}
	}
	return health
}

// statistics reads those of the plugin, sorted. The page has their whole names, whatever rules for tags the gateway
// has.
func (g *gateway) statistics(ctx context.Context) ([]Statistic, error) {
	type histogram struct {
		Name    string
		Buckets []struct {
			UpTo       float64 `json:"upper_bound"`
			Cumulative int64
		}
	}
	var page struct {
		Stats []struct {
			Name       string
			Value      any // a text for some statistics of others
			Histograms []histogram
		}
	}
	const asked = "/stats?format=json&histogram_buckets=cumulative&filter=warmgate_"
	if err := g.adminJSON(ctx, asked, mostStatistics, &page); err != nil {
		return nil, err
	}
	type named struct {
		Statistic
		whole string
	}
	var all []named
	add := func(name string, s Statistic) {
		if s.Name, s.Labels = statname.Parse(name); strings.HasPrefix(s.Name, "warmgate_") {
			all = append(all, named{s, statname.Short(name)})
		}
	}
	for _, s := range page.Stats {
		if v, ok := s.Value.(float64); ok {
			add(s.Name, Statistic{Value: v})
		}
		for _, h := range s.Histograms {
			var buckets []Bucket
			for _, b := range h.Buckets {
				buckets = append(buckets, Bucket{b.UpTo, b.Cumulative})
			}
			if n := len(buckets); n > 0 {
				add(h.Name, Statistic{Value: float64(buckets[n-1].Count), Buckets: buckets})
			}
		}
	}
	slices.SortFunc(all, func(a, b named) int { return strings.Compare(a.whole, b.whole) })
	out := make([]Statistic, len(all))
	for i := range all {
		out[i] = all[i].Statistic
	}
	return out, nil
}

// state asks the plugin. Decisions are those of which it knows more since a time, in ms since 1970.
func (g *gateway) state(ctx context.Context, since int64) (*state.State, error) {
	s := new(state.State)
	from := strings.TrimSuffix(g.Inspect, "/") + "/state"
	if since > 0 {
		from += "?since=" + strconv.FormatInt(since, 10)
	}
	err := getJSON(ctx, &g.inspect, from, g.Token, mostState, s)
	switch err {
	case nil:
		return s, nil
	case statusError(http.StatusUnauthorized):
		return nil, fmt.Errorf("%w: it wants the token of lb_config.inspect.token (--token-file)", err)
	case statusError(http.StatusNotFound):
		return nil, fmt.Errorf("%w: nothing is shown at this path; lb_config.inspect switches that on", err)
	}
	return nil, err
}
