package attacks

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/e2e/wait"
)

// attackerHeader marks the attacker's requests for the servers here. The gateway does not know it.
const attackerHeader = "X-Bench-Attacker"

// honestIP returns the address of an honest client.
func honestIP(client int) string { return fmt.Sprintf("127.0.0.%d", 3+client) }

// arm is one run: a gateway and servers of its own, with an attacker or, as a control, without.
type arm struct {
	scenario *scenario
	attack   *attack // nil for a control
	again    bool    // the second control
	place    int     // of the attack in the report
	round    int

	stage   *compare.Stage
	redis   *redisserver.Server
	crowd   *crowd
	traffic []honest
	shots   []shot
	start   time.Time
	outcome

	mu sync.Mutex
}

// outcome is what was seen in a run.
type outcome struct {
	samples []loadgen.Sample // of honest requests, warming up included
	answers map[string]int   // what the attacker got, by status
	held    []interval       // requests of the attacker at servers
	ejected float64          // endpoints, by the plugin
	native  float64          // endpoints, by Envoy's own outlier detection
	passed  int              // requests above the cap, at the worst moment of each server
	slowest time.Duration    // script in Redis
	slow    int              // scripts of more than scriptLimit
}

// interval is the time that a request spent at a server.
type interval struct {
	server   int
	from, to time.Duration
}

func (a *arm) name() string {
	switch {
	case a.attack != nil:
		return a.attack.String()
	case a.again:
		return a.scenario.name + ", control again"
	}
	return a.scenario.name + ", control"
}

// playAll plays the arms at the same time.
func playAll(ctx context.Context, s settings, arms []*arm) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	each := func(do func(*arm) error) error {
		return wait.All(len(arms), func(i int) error {
			if err := do(arms[i]); err != nil {
				return fmt.Errorf("%s: %w", arms[i].name(), err)
			}
			return nil
		})
	}
	err := each(func(a *arm) error { return a.prepare(ctx, s) })
	if err == nil {
		err = each(func(a *arm) error { return a.play(ctx, s) })
	}
	return errors.Join(err, each(func(a *arm) error { return a.close() }))
}

// prepare starts servers and gateway and makes the requests.
func (a *arm) prepare(ctx context.Context, s settings) error {
	seed := s.Seed + uint64(a.round)
	var err error
	if a.traffic, err = a.scenario.traffic(s, seed); err != nil {
		return err
	}
	if a.attack != nil {
		a.shots = a.attack.shots(seed, len(a.traffic), s.warm+s.span)
	}
	o := compare.Options{Workers: s.Workers, First: compare.Policy{
		Name: a.scenario.name, Cluster: harness.Warmgate, Plugin: a.scenario.plugin,
	}}
	for i := range a.scenario.servers {
		c := engine()
		c.Lenient, c.Watch = a.scenario.lenient, a.watch(i)
		o.Servers = append(o.Servers, c)
	}
	if a.scenario.redis {
		if a.redis, err = startRedis(ctx); err != nil {
			return err
		}
		o.Redis = a.redis.Addr()
	}
	if a.stage, err = compare.NewStage(ctx, o); err != nil {
		return err
	}
	if a.attack != nil && a.attack.servers != nil {
		if err := a.attack.servers(a.round, a.stage.Servers); err != nil {
			return err
		}
	}
	if a.redis != nil && a.attack != nil {
		if a.crowd, err = gather(a.redis.Addr(), addresses(a.stage), crowdOwners, crowdLeases); err != nil {
			return err
		}
	}
	return a.ready(ctx)
}

// ready sends a request until the plugin decides.
func (a *arm) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	body := `{"model":"sim","messages":[{"role":"user","content":"ready?"}],"max_tokens":1}`
	c := loadgen.NewClient(loadgen.Options{URL: a.stage.Gateway.URL() + chatPath, KeepHeaders: compare.DebugHeaders})
	defer c.Close()
	for {
		sample := c.Do(ctx, &loadgen.Request{Body: []byte(body)}, time.Now())
		if sample.Header.Get("x-warmgate-reason") == "chosen" {
			return nil
		}
		if err := wait.For(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("the plugin does not decide: %+v: %w", sample, err)
		}
	}
}

// watch records when requests of the attacker are at a server.
func (a *arm) watch(server int) func(*http.Request) func() {
	return func(r *http.Request) func() {
		if r.Header.Get(attackerHeader) == "" {
			return func() {}
		}
		from := time.Now()
		return func() {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.held = append(a.held, interval{server, from.Sub(a.start), time.Since(a.start)})
		}
	}
}

// play has honest clients and attacker send their requests, and takes the figures.
func (a *arm) play(ctx context.Context, s settings) error {
	if a.redis != nil {
		if err := a.crowd.beginToDie(); err != nil {
			return err
		}
		if _, err := a.redis.Do("SLOWLOG", "RESET"); err != nil {
			return err
		}
	}
	for _, srv := range a.stage.Servers {
		srv.Reset()
	}
	a.start = time.Now()
	var wg sync.WaitGroup
	wg.Add(2)
	go func() {
		defer wg.Done()
		a.answers = fire(ctx, a.stage.Gateway.Addr(), a.shots, a.start)
	}()
	go func() {
		defer wg.Done()
		a.crowd.keepOne(ctx, s.warm+s.span)
	}()
	a.samples = a.send(ctx)
	wg.Wait()
	return errors.Join(ctx.Err(), a.measure(ctx))
}

// send plays the honest requests, each from its client's address.
func (a *arm) send(ctx context.Context) []loadgen.Sample {
	clients := make([]*loadgen.Client, honestClients)
	for i := range clients {
		clients[i] = loadgen.NewClient(loadgen.Options{
			URL: a.stage.Gateway.URL() + a.scenario.path, From: honestIP(i),
			KeepHeaders: compare.DebugHeaders, Timeout: time.Minute,
		})
		defer clients[i].Close()
	}
	out := make([]loadgen.Sample, len(a.traffic))
	var wg sync.WaitGroup
	for i := range a.traffic {
		q := &a.traffic[i]
		if wait.For(ctx, time.Until(a.start.Add(q.Due))) != nil {
			break
		}
		wg.Add(1)
		go func() {
			defer wg.Done()
			out[i] = clients[q.client].Do(ctx, &q.Request, a.start)
		}()
	}
	wg.Wait()
	return out
}

// countedBy matches the gateway's counters that are read.
const countedBy = `^wasmcustom\.warmgate_ejections|` +
	`^cluster\.llm\.outlier_detection\.ejections_enforced_total$`

// measure reads what gateway, servers and Redis have counted.
func (a *arm) measure(ctx context.Context) error {
	if err := wait.For(ctx, 1200*time.Millisecond); err != nil { // ejections are counted every second
		return err
	}
	stats, err := a.stage.Gateway.Stats(ctx, countedBy)
	if err != nil {
		return err
	}
	for name, v := range stats {
		switch {
		case strings.Contains(name, "warmgate_ejections_total"):
			a.ejected += v
		default:
			a.native += v
		}
	}
	if most := a.scenario.capacity; most > 0 {
		for _, srv := range a.stage.Servers {
			a.passed += max(0, int(srv.State().MaxInflight)-most)
		}
	}
	if a.redis != nil {
		a.slowest, a.slow, _, err = slowest(a.redis)
	}
	return err
}

func (a *arm) close() error {
	var errs []error
	if a.stage != nil {
		errs = append(errs, a.stage.Close())
	}
	a.crowd.close()
	if a.redis != nil {
		errs = append(errs, a.redis.Stop())
	}
	return errors.Join(errs...)
}

// addresses returns ip:port of the servers.
func addresses(s *compare.Stage) []string {
	var out []string
	for _, srv := range s.Servers {
		out = append(out, srv.Addr())
	}
	return out
}
