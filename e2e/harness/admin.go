package harness

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/warmgate/warmgate/e2e/wait"
	"github.com/warmgate/warmgate/internal/statname"
)

// admin talks to Envoy's admin page over its Unix socket.
type admin struct{ client http.Client }

func newAdmin(dir string) *admin {
	socket := filepath.Join(dir, adminSocket)
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}}
	return &admin{client: http.Client{Transport: transport, Timeout: Patience}}
}

// get returns the body of an admin page; any status but 200 is an error.
func (a *admin) get(ctx context.Context, page string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://admin"+page, nil)
	if err != nil {
		return "", err
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("harness: admin %s: %s: %.200s", page, resp.Status, body)
	}
	return string(body), err
}

// stats returns the counters and gauges whose short name matches the regular expression filter. Envoy, which knows the
// long ones only, is asked for all of the plugin's and those of others that match.
func (a *admin) stats(ctx context.Context, filter string) (map[string]float64, error) {
	matches, err := regexp.Compile(filter)
	if err != nil {
		return nil, err
	}
	asked := filter
	if filter != "" {
		asked = "warmgate_|" + filter
	}
	text, err := a.get(ctx, "/stats?filter="+url.QueryEscape(asked))
	if err != nil {
		return nil, err
	}
	stats := parseStats(text)
	maps.DeleteFunc(stats, func(name string, _ float64) bool { return !matches.MatchString(name) })
	return stats, nil
}

// parseStats reads the lines "name: value", and makes names short. A name may hold colons and blanks, an endpoint's
// address for one, so the last ": " divides. Histograms and text values are left out.
func parseStats(text string) map[string]float64 {
	stats := make(map[string]float64)
	for _, line := range strings.Split(text, "\n") {
		i := strings.LastIndex(line, ": ")
		if i < 0 {
			continue
		}
		if v, err := strconv.ParseFloat(line[i+2:], 64); err == nil {
			stats[statname.Short(line[:i])] = v
		}
	}
	return stats
}

// Stats returns the counters and gauges whose name matches the regular expression filter, "" meaning all. Warmgate's
// own have short names (see internal/statname) behind Envoy's prefix, wasmcustom.warmgate_...; histograms are left out.
func (g *Gateway) Stats(ctx context.Context, filter string) (map[string]float64, error) {
	return g.admin.stats(ctx, filter)
}

// Sum returns the sum of the counters and gauges that match the regular expression filter.
func (g *Gateway) Sum(ctx context.Context, filter string) (float64, error) {
	stats, err := g.admin.stats(ctx, filter)
	var sum float64
	for _, v := range stats {
		sum += v
	}
	return sum, err
}

// Prometheus returns the page that a Prometheus server would scrape.
func (g *Gateway) Prometheus(ctx context.Context) (string, error) {
	return g.admin.get(ctx, "/stats/prometheus")
}

// Clusters returns the admin page /clusters in its text form, the one that the plugin reads.
func (g *Gateway) Clusters(ctx context.Context) (string, error) {
	return g.admin.get(ctx, "/clusters")
}

// CPU returns the CPU time that Envoy has used since it started, user and kernel together, in steps of 10 ms.
func (g *Gateway) CPU() (time.Duration, error) { return g.process.cpu() }

// RSS returns Envoy's resident memory in bytes.
func (g *Gateway) RSS() (int64, error) { return g.process.rss() }

// Used returns how many bytes of memory Envoy uses, and how many are resident. What its allocator keeps for later use,
// which is as much as the busiest moment so far needed, is resident but not used. All memory of the VMs counts as used.
// It takes 6 s: Envoy brings its statistics of memory up to date every 5 s.
func (g *Gateway) Used(ctx context.Context) (used, resident int64, err error) {
	const flush = 6 * time.Second
	if err := wait.For(ctx, flush); err != nil {
		return 0, 0, err
	}
	if resident, err = g.RSS(); err != nil {
		return 0, 0, err
	}
	stats, err := g.Stats(ctx, `^server\.memory_`)
	return resident - int64(stats["server.memory_physical_size"]) + int64(stats["server.memory_allocated"]),
		resident, err
}
