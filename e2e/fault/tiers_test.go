package fault

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
)

// tiered is a gateway in front of servers of several priorities or zones. Each server answers with its number; a
// request for /hold stays there until it is released.
type tiered struct {
	t       *testing.T
	gw      *harness.Gateway
	list    []harness.Endpoint
	release atomic.Pointer[chan struct{}] // of what is held
}

// newTiered starts a gateway and n servers, all of them in the first priority and checked by Envoy.
func newTiered(t *testing.T, n int, o harness.Options) *tiered {
	d := &tiered{t: t}
	d.letGo()
	for i := range n {
		d.list = append(d.list, harness.ServeT(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			release := *d.release.Load()
			w.Header().Set("x-server", strconv.Itoa(i))
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			if r.URL.Path == "/hold" {
				<-release
			}
		})))
	}
	o.Endpoints, o.Config = d.list, config()
	d.gw = harness.StartT(t, o)
	return d
}

// letGo ends all requests that are held.
func (d *tiered) letGo() {
	next := make(chan struct{})
	if held := d.release.Swap(&next); held != nil {
		close(*held)
	}
}

// push sets the endpoints, by words like "0", "1", "0 UNHEALTHY": priority and state. It waits until Envoy has them
// and the plugin chooses no others than those given, where Envoy follows it.
func (d *tiered) push(words []string, allowed ...int) {
	d.t.Helper()
	for i, w := range words {
		e := &d.list[i]
		var priority string
		priority, e.Health, _ = strings.Cut(w, " ")
		e.Priority, _ = strconv.Atoi(priority)
	}
	d.pushList(allowed...)
}

func (d *tiered) pushList(allowed ...int) {
	d.t.Helper()
	if err := d.gw.PushEndpoints(context.Background(), d.list); err != nil {
		d.t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^llm::.*::health_flags::.*$`)
	harness.Await(d.t, func() error {
		text, err := d.gw.Clusters(context.Background())
		if err != nil {
			return err
		}
		found := line.FindAllString(text, -1)
		if len(found) != len(d.list) || strings.Contains(strings.Join(found, ""), "active_hc") {
			return fmt.Errorf("Envoy has not checked its endpoints: %q", found)
		}
		return nil
	})
	harness.Await(d.t, func() error {
		for range 40 { // both workers must know
			a := harness.Get(d.t, d.gw.URL()+"/")
			at, _ := strconv.Atoi(a.Header.Get("x-server"))
			chosen := a.Host()
			if !slices.Contains(allowed, at) || chosen != "" && chosen != d.list[at].Addr {
				return fmt.Errorf("server %d served a request that was meant for %q, want one of %v", at,
					chosen, allowed)
			}
		}
		return nil
	})
}

// get returns which server answers.
func (d *tiered) get(path string) int {
	d.t.Helper()
	n, err := strconv.Atoi(harness.Get(d.t, d.gw.URL()+path).Header.Get("x-server"))
	if err != nil {
		d.t.Fatal(err)
	}
	return n
}

// split returns how many of n requests each group of servers gets, which are given by their first numbers.
func (d *tiered) split(n int, firsts ...int) []int {
	d.t.Helper()
	counts := make([]int, len(firsts))
	for range n {
		counts[groupOf(d.get("/"), firsts)]++
	}
	return counts
}

// wantShare checks a number of draws against a binomial distribution, 4.5 standard deviations to either side.
func wantShare(t *testing.T, what string, got, n int, share float64) {
	t.Helper()
	off, most := math.Abs(float64(got)-float64(n)*share), 4.5*math.Sqrt(float64(n)*share*(1-share))
	t.Logf("%s: %d of %d, expected %.0f±%.0f", what, got, n, float64(n)*share, most)
	if off > most {
		t.Errorf("%s: %d of %d, want %.0f±%.0f", what, got, n, float64(n)*share, most)
	}
}

// hold sends n requests that stay, one after the other, and returns how many each group of servers gets, and how many
// are refused. The groups are given by their first servers.
func (d *tiered) hold(n int, firsts ...int) (counts []int, refused int) {
	d.t.Helper()
	counts = make([]int, len(firsts))
	var open []io.ReadCloser
	for range n {
		resp, err := http.Get(d.gw.URL() + "/hold")
		if err != nil {
			d.t.Fatal(err)
		}
		open = append(open, resp.Body)
		if resp.StatusCode != http.StatusOK {
			refused++
			continue
		}
		at, err := strconv.Atoi(resp.Header.Get("x-server"))
		if err != nil {
			d.t.Fatal(err)
		}
		counts[groupOf(at, firsts)]++
	}
	d.letGo()
	for _, body := range open {
		_, _ = io.Copy(io.Discard, body)
		_ = body.Close()
	}
	d.gw.DrainedT(d.t)
	return counts, refused
}

func groupOf(server int, firsts []int) int {
	group := 0
	for i, first := range firsts {
		if server >= first {
			group = i
		}
	}
	return group
}

func (d *tiered) configure(lines ...string) {
	d.t.Helper()
	if err := d.gw.PushPlugin(context.Background(), config(lines...)); err != nil {
		d.t.Fatal(err)
	}
}

// TestFailover compares how requests are divided among priorities with what Envoy's native balancing does, and checks
// that the gateway's own zone is preferred as far as configured.
func TestFailover(t *testing.T) {
	for _, version := range []string{harness.DefaultVersion, harness.OldestVersion} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			d := newTiered(t, 10, harness.Options{Version: version, Edit: inZone("a")})
			testPriorities(t, d)
			testZones(t, d)
			testNative(t, d)
		})
	}
}

// inZone puts Envoy into a zone.
func inZone(zone string) func(string, *yaml.Node) error {
	return harness.OfFile("envoy.yaml", func(doc *yaml.Node) error {
		return harness.Set(doc, "node.locality", map[string]any{"zone": zone})
	})
}

// oneOfFour is a first priority of which so few endpoints are healthy that it gets 35 % of the requests.
var oneOfFour = []string{"0", "0 UNHEALTHY", "0 UNHEALTHY", "0 UNHEALTHY", "1", "1", "1", "1", "2", "2"}

const splits = 300 // requests that are counted

func testPriorities(t *testing.T, d *tiered) {
	d.push(oneOfFour, 0, 4, 5, 6, 7)
	wantShare(t, "1 of 4 healthy in P0: P0", d.split(splits, 0, 4)[0], splits, 0.35)

	d.configure(`"max_inflight":10`)
	counts, refused := d.hold(40, 0, 4)
	t.Logf("1 of 4 healthy in P0, 10 each at the most: P0 and P1 get %d, %d refused", counts, refused)
	if counts[0] > 10 || refused > 0 {
		t.Errorf("with 1 of 4 healthy in P0 and a cap of 10: P0 and P1 get %d, %d refused; want at most "+
			"10, the rest, none", counts, refused)
	}
	d.configure()

	out := "0 UNHEALTHY"
	d.push([]string{out, out, out, out, "1", "1", "1", "1", "2", "2"}, 4, 5, 6, 7, 8, 9)
	if counts := d.split(splits, 0, 4, 8); counts[1] != splits {
		t.Errorf("without P0 the priorities got %v, want all in P1", counts)
	}

	// 1 of 5 and 1 of 2: too few in all, so P0 is left to Envoy and P1 is not.
	leaves := "1 DRAINING"
	d.push([]string{"0", out, out, out, out, "1", "1 UNHEALTHY", leaves, leaves, leaves}, 0, 1, 2, 3, 4, 5)
	before := d.gw.DecidedT(t, "panic_threshold")
	d.split(splits, 0)
	left := int(d.gw.DecidedT(t, "panic_threshold") - before)
	wantShare(t, "1 of 5 and 1 of 2 healthy: left to Envoy", left, splits, 0.29)

	gone := "1 UNHEALTHY"
	d.push([]string{"0", "0 DEGRADED", "0 DEGRADED", "0 DEGRADED", gone, gone, gone, gone, gone, gone}, 0, 1, 2, 3)
	wantShare(t, "1 healthy and 3 degraded: healthy", d.split(splits, 0, 1)[0], splits, 0.35)
}

func testZones(t *testing.T, d *tiered) {
	all := d.list
	defer func() { d.list = all }()
	d.list = nil
	for i, zone := range []string{"a", "b", "c"} {
		d.list = append(d.list, harness.Endpoint{Addr: all[i].Addr, Zone: zone})
	}
	d.pushList(0, 1, 2)
	// 5 in the own zone cost as little as one elsewhere, with the penalty; then each other server gets one.
	d.configure(`"zone_penalty":4.5`)
	d.wantHeld([]int{5, 1, 1})
	d.configure()
	d.wantHeld([]int{3, 3, 3})
}

// wantHeld sends requests that stay until they are spread as wanted. While an endpoint moves, Envoy does not know it
// for a moment; the plugin counts that as a failure, and gives it less for a while.
func (d *tiered) wantHeld(want []int) {
	d.t.Helper()
	n := 0
	for _, w := range want {
		n += w
	}
	harness.Await(d.t, func() error {
		if counts, _ := d.hold(n, 0, 1, 2); !slices.Equal(counts, want) {
			return fmt.Errorf("the zones get %v of %d, want %v", counts, n, want)
		}
		return nil
	})
}

// testNative is where the same is compared with Envoy's native balancing.
func testNative(t *testing.T, d *tiered) {
	if err := d.gw.PushCluster(context.Background(), harness.LeastRequest); err != nil {
		t.Fatal(err)
	}
	if err := d.gw.PushNoPlugin(context.Background()); err != nil {
		t.Fatal(err)
	}
	d.push(oneOfFour, 0, 4, 5, 6, 7)
	wantShare(t, "Envoy itself, 1 of 4 healthy in P0: P0", d.split(splits, 0, 4)[0], splits, 0.35)
}
