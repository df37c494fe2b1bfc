package budget

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/e2e/wait"
)

// costs is what the admission API can do, in one round.
type costs struct {
	perSecond float64       // tasks that were scheduled and completed, by callers that wait for nothing else
	p99       time.Duration // of a call to schedule, at half of the target of perSecond
	late      time.Duration // p99 of how late those calls were sent
	used      bench.Used    // meanwhile
}

// The cost is measured with so many connections, for so long each, after a time to warm up.
const (
	callers  = 32
	costWarm = time.Second
	costSpan = 5 * time.Second
)

// targetPerSecond is the target of costs.perSecond.
const targetPerSecond = 5000

// playCost measures a gateway with two workers and Redis whose models have room for everything: only what a call costs
// counts.
func playCost(ctx context.Context, s settings) (all []costs, err error) {
	server, err := redisserver.Start(ctx, redisserver.Options{})
	if err != nil {
		return nil, err
	}
	defer server.Stop()
	roomy := fleet()
	for i := range roomy {
		roomy[i].Slots, roomy[i].TokensPerMinute, roomy[i].RequestsPerMinute = 100_003, float64(1_000_003+i)*997, 1e9
	}
	g := newGame(fleet(), nil) // its servers are only there to be known
	defer g.close()
	config := apiConfig(roomy, s.ttl, true)
	gateway, err := startGateway(ctx, roomy, g.addrs(), config, server.Addr(), 2)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, gateway.Stop()) }()
	r := &router{base: gateway.URL() + apiPath, token: apiToken, client: g.client}
	if err := r.awaitOpen(ctx); err != nil {
		return nil, err
	}
	for round := range s.Rounds {
		c, err := measureCost(ctx, gateway)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
		fmt.Printf("round %d  cost  %s\n", round+1, costColumns.Show(&c))
	}
	left, err := r.inflight(ctx)
	if err == nil && left != 0 {
		err = fmt.Errorf("%d tasks are still counted after the calls", left)
	}
	return all, err
}

// measureCost has callers schedule and complete as fast as they can, and then at half of the target.
func measureCost(ctx context.Context, gateway *harness.Gateway) (c costs, err error) {
	if _, err = load(ctx, gateway.Addr(), 0, costWarm); err != nil {
		return c, err
	}
	var fast paced
	if c.used, err = bench.Use([]*harness.Gateway{gateway}, func() {
		fast, err = load(ctx, gateway.Addr(), 0, costSpan)
	}); err != nil {
		return c, err
	}
	c.perSecond = float64(len(fast.took)) / fast.span.Seconds()
	slow, err := load(ctx, gateway.Addr(), targetPerSecond/2, costSpan)
	if err == nil {
		c.p99, c.late = loadgen.Quantile(slow.took, 0.99), loadgen.Quantile(slow.late, 0.99)
	}
	return c, err
}

// paced is what callers have seen.
type paced struct {
	took []time.Duration // each call to schedule from when it was due, sorted
	late []time.Duration // each of them, how much later it was sent, sorted
	span time.Duration
}

// load has callers schedule and complete tasks for a time: so many a second, or as many as they can with 0. When all
// callers have a call under way, the next one is late, which counts.
func load(ctx context.Context, addr string, perSecond float64, span time.Duration) (paced, error) {
	var mu sync.Mutex
	var all paced
	start, next := time.Now(), 0
	due := func() (time.Time, bool) {
		mu.Lock()
		defer mu.Unlock()
		at := time.Now()
		if perSecond > 0 {
			at = start.Add(time.Duration(float64(next) / perSecond * float64(time.Second)))
			next++
		}
		return at, at.Sub(start) < span
	}
	err := bench.SideBySide(ctx, callers, callers, func(ctx context.Context, _, _ int) error {
		c, err := dial(addr)
		if err != nil {
			return err
		}
		defer c.conn.Close()
		for at, ok := due(); ok; at, ok = due() {
			if err := wait.For(ctx, time.Until(at)); err != nil {
				return err
			}
			late := time.Since(at)
			task, err := c.schedule()
			if err != nil {
				return err
			}
			took := time.Since(at)
			if err := c.complete(task); err != nil {
				return err
			}
			mu.Lock()
			all.took, all.late = append(all.took, took), append(all.late, late)
			mu.Unlock()
		}
		return nil
	})
	all.span = time.Since(start)
	slices.Sort(all.took)
	slices.Sort(all.late)
	if err == nil && len(all.took) == 0 {
		err = errors.New("no call was answered")
	}
	return all, err
}

// caller is one connection. It spends as little time as it can: it shares the machine with what it measures.
type caller struct {
	conn net.Conn
	in   *textproto.Reader
}

func dial(addr string) (*caller, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &caller{conn, textproto.NewReader(bufio.NewReader(conn))}, nil
}

func (c *caller) schedule() (task string, err error) {
	text, err := c.post("/schedule", `{"estimated_tokens":1801}`)
	if err != nil {
		return "", err
	}
	if task = gjson.Get(text, "task_id").Str; task == "" {
		err = fmt.Errorf("schedule: %s", text)
	}
	return task, err
}

func (c *caller) complete(task string) error {
	text, err := c.post("/complete", `{"task_id":"`+task+`","actual_tokens":1507}`)
	if err == nil && !gjson.Get(text, "ok").Bool() {
		err = fmt.Errorf("complete: %s", text)
	}
	return err
}

// post sends a call and returns the body of its answer.
func (c *caller) post(path, body string) (string, error) {
	_, err := io.WriteString(c.conn, "POST "+apiPath+path+" HTTP/1.1\r\nhost: warmgate\r\nauthorization: Bearer "+
		apiToken+"\r\ncontent-type: application/json\r\ncontent-length: "+strconv.Itoa(len(body))+"\r\n\r\n"+body)
	if err != nil {
		return "", err
	}
	status, err := c.in.ReadLine()
	if err != nil {
		return "", err
	}
	length := 0
	for {
		line, err := c.in.ReadLine()
		if err != nil {
			return "", err
		}
		if line == "" {
			break
		}
		if name, value, _ := strings.Cut(line, ":"); strings.EqualFold(name, "content-length") {
			if length, err = strconv.Atoi(strings.TrimSpace(value)); err != nil {
				return "", err
			}
		}
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(c.in.R, text); err != nil {
		return "", err
	}
	if !strings.HasPrefix(status, "HTTP/1.1 200") {
		return "", fmt.Errorf("%s: %s: %s", path, status, text)
	}
	return string(text), nil
}

var costColumns = bench.Columns[costs]{
	bench.Col("tasks scheduled and completed, 1/s", "%.0f", func(c *costs) float64 { return c.perSecond }),
	bench.Col(fmt.Sprintf("schedule p99 at %d/s, ms", targetPerSecond/2), "%.2f",
		func(c *costs) float64 { return bench.MS(c.p99) }),
	bench.Col("callers late p99, ms", "%.2f", func(c *costs) float64 { return bench.MS(c.late) }),
	bench.Col("cores of Envoy", "%.2f", func(c *costs) float64 { return c.used.Gateways }),
	bench.Col("of callers", "%.2f", func(c *costs) float64 { return c.used.Own }),
	bench.Col("CPU of the machine, %", "%.0f", func(c *costs) float64 { return 100 * c.used.Machine }),
}
