package overload

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/loadgen"
)

// scene is one situation, but for refusals under the shipped configuration.
type scene struct {
	name string
	play playScene
}

// playScene plays a scene on a board, or on one of its own, and returns what it has found.
type playScene func(ctx context.Context, b *board, s settings) (bench.Line, error)

func (s scene) title() string { return s.name }

// loadsName names what is no scene: the contenders at several loads.
const loadsName = "loads"

// scenes returns all, in the order in which they are played.
func scenes() []scene {
	return []scene{
		{loadsName, nil},
		{"refusals", refusals},
		{"sustained", sustained},
		{"flood", flood},
		{"stall", stall},
		{"sustained_redis", withRedis(sustainedRedis)},
		{"kill", withRedis(kill)},
	}
}

// playScenes plays scenes one after the other, and returns what all have found.
func playScenes(ctx context.Context, b *board, s settings, list []scene) (bench.Line, error) {
	all := bench.Line{}
	for _, scene := range list {
		if scene.play == nil {
			continue
		}
		f, err := scene.play(ctx, b, s)
		if err != nil {
			return all, fmt.Errorf("%s: %w", scene.name, err)
		}
		maps.Copy(all, f)
	}
	return all, nil
}

// add adds waits to a last line: its p99, how many were refused, and the most that passed one, by the beginnings of
// their names.
func (w waits) add(l bench.Line, p99, others string) {
	l[p99+"_p99_ms"], l[others+"_refused"], l[others+"_passed_max"] = bench.MS(w.p99), w.refused, w.passed
}

// nameHeader names a request of a scene to the servers: whose it is, a blank, and a number.
const nameHeader = "X-Bench-Name"

// board is a stage whose servers tell which requests come to them.
type board struct {
	*compare.Stage
	mu       sync.Mutex
	start    time.Time
	arrivals []arrival
	inFlight map[string]int // at all servers, by whose they are
}

// newBoard starts the servers, and gateways with these options.
func newBoard(ctx context.Context, o compare.Options) (*board, error) {
	b := &board{start: time.Now(), inFlight: map[string]int{}}
	o.First, o.Edit = prepared, harness.OfFile("envoy.yaml", Prepare)
	for _, c := range fleet() {
		c.Watch = b.watch
		o.Servers = append(o.Servers, c)
	}
	var err error
	b.Stage, err = compare.NewStage(ctx, o)
	return b, err
}

// arrival is a request that has come to a server.
type arrival struct {
	who, name string
	at        time.Duration
}

// watch is for [vllmsim.Config].
func (b *board) watch(r *http.Request) (ended func()) {
	name := r.Header.Get(nameHeader)
	who, _, _ := strings.Cut(name, " ")
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inFlight[who]++
	if name != "" {
		b.arrivals = append(b.arrivals, arrival{who, name, time.Since(b.start)})
	}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.inFlight[who]--
	}
}

// at returns the time, and how many requests of somebody are at the servers.
func (b *board) at(who string) (now time.Duration, inFlight int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Since(b.start), b.inFlight[who]
}

// begin has the gateways use a configuration, and the servers forget what was.
func (b *board) begin(ctx context.Context, config string) error {
	p := compare.Policy{Name: shippedName, Cluster: harness.Warmgate, Plugin: config}
	if err := b.Switch(ctx, p); err != nil {
		return err
	}
	if err := prepareServers(ctx, b.Stage); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.start, b.arrivals = time.Now(), nil
	return nil
}

// clientOf returns a client of a gateway.
func (b *board) clientOf(gateway int) *loadgen.Client {
	return loadgen.NewClient(loadgen.Options{
		URL: b.Gateways[gateway].URL() + compare.Path, Connections: 8192, KeepHeaders: []string{retryHeader},
	})
}

// stream returns requests of somebody at a multiple of the servers' capacity, with more headers, name and value in
// turn.
func (b *board) stream(who string, seed uint64, load float64, span time.Duration, headers ...string) (
	[]loadgen.Request, error,
) {
	reqs, err := compare.AtLoad(workload(seed), fleet(), load, span)
	for i := range reqs {
		reqs[i].Header = http.Header{nameHeader: {who + " " + strconv.Itoa(i)}}
		for k := 0; k < len(headers); k += 2 {
			reqs[i].Header.Set(headers[k], headers[k+1])
		}
	}
	return reqs, err
}

// open sends the requests when they are due, for so long. Then the clients leave whose requests are not answered.
func (b *board) open(ctx context.Context, gateway int, span time.Duration, reqs []loadgen.Request) []loadgen.Sample {
	slices.SortStableFunc(reqs, func(x, y loadgen.Request) int { return int(x.Due - y.Due) })
	ctx, cancel := context.WithTimeout(ctx, span)
	defer cancel()
	c := b.clientOf(gateway)
	defer c.Close()
	from := time.Since(b.start)
	samples := c.OpenLoop(ctx, reqs)
	for i := range samples {
		samples[i].Sent += from
	}
	return samples
}

// waits is what became of somebody's requests.
type waits struct {
	sent    int
	refused int
	p99     time.Duration // until they came to a server; who left before has waited until then
	passed  int           // how many others' requests came to a server meanwhile, at most
}

// waitsOf reduces the samples, which belong to the requests.
func (b *board) waitsOf(who string, reqs []loadgen.Request, samples []loadgen.Sample) (w waits) {
	b.mu.Lock()
	defer b.mu.Unlock()
	began := map[string]time.Duration{}
	for _, a := range b.arrivals {
		began[a.name] = a.at
	}
	var all []time.Duration
	for i := range samples {
		s, name := &samples[i], reqs[i].Header.Get(nameHeader)
		if s.Error == loadgen.ErrNotSent || !strings.HasPrefix(name, who+" ") {
			continue
		}
		w.sent++
		end, ok := began[name]
		if refused := s.Status == http.StatusTooManyRequests; refused {
			w.refused++
			continue
		}
		if !ok {
			end = s.Sent + s.Total
		}
		all = append(all, end-s.Sent)
		w.passed = max(w.passed, b.others(who, s.Sent, end))
	}
	slices.Sort(all)
	if len(all) > 0 {
		w.p99 = loadgen.Quantile(all, 0.99)
	}
	return w
}

// others counts the requests of others that came to a server in a time.
func (b *board) others(who string, from, to time.Duration) (n int) {
	for _, a := range b.arrivals {
		if a.who != who && a.at > from && a.at < to {
			n++
		}
	}
	return n
}

// String returns the waits in words.
func (w waits) String() string {
	return fmt.Sprintf("%d requests, %d refused, waits of %.0f ms at p99, passed by %d at most", w.sent, w.refused,
		bench.MS(w.p99), w.passed)
}
