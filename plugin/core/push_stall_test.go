package core

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/e2e/streamtest"
)

// overloadConfig is the configuration of the shipped resource for overload, with members of lb_config added.
func overloadConfig(t *testing.T, members map[string]any) string {
	t.Helper()
	text, err := os.ReadFile("../../envoy-config/higress-wasmplugin-overload.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var resource struct {
		Spec struct {
			Rules []struct{ Config map[string]any } `yaml:"matchRules"`
		}
	}
	if err := yaml.Unmarshal(text, &resource); err != nil {
		t.Fatal(err)
	}
	config := resource.Spec.Rules[0].Config
	for name, v := range members {
		config["lb_config"].(map[string]any)[name] = v
	}
	out, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

const (
	crowdSlots = 6
	crowdStep  = 50 * time.Millisecond
)

// crowd is more requests than the servers of a gateway can run: each runs crowdSlots at once, and queues the rest.
type crowd struct {
	*fakeDriver
	streamed bool
	announce string          // what servers send of each answer at once, "" for nothing
	waiting  []*fakeClient   // in the gateway
	servers  [][]*servedByIt // in the order in which they came
	sent     int
	gone     int // of so many servers no metrics come
	most     int // requests in flight at one of those in the latest run, but for a hundredth of its steps
	served   int
	page     func(server, running, waiting int) string // of metrics, "" for none
}

type servedByIt struct {
	*fakeClient
	tokens, done int
}

// step lets crowdStep pass, in which each request that runs gets a token. There are always some that wait.
func (c *crowd) step() {
	for i := range c.servers {
		var left []*servedByIt
		for k, r := range c.servers[i] {
			if k >= crowdSlots {
				left = append(left, r)
				continue
			}
			if r.done++; r.done == 1 && c.streamed && c.announce == "" {
				r.Head(200, [2]string{"content-type", "text/event-stream"})
			}
			if c.streamed {
				r.Data(wordEvent)
			}
			if r.done < r.tokens {
				left = append(left, r)
				continue
			}
			if !c.streamed {
				r.Head(200)
				r.Data(strings.Repeat("x", 300+4*r.tokens))
			}
			r.Finish()
			c.served++
		}
		c.servers[i] = left
		c.SetPage(i, c.page(i, min(len(left), crowdSlots), max(0, len(left)-crowdSlots)))
	}
	for len(c.waiting) < 20 {
		c.sent++
		body := fmt.Sprintf(`{"stream":%v,"messages":[{"role":"user","content":"%d"}]}`, c.streamed, c.sent)
		c.waiting = append(c.waiting, c.client(c.sent%len(c.workers), streamtest.Request{Frames: []string{body}}))
	}
	c.advance(crowdStep)
	c.waiting = slices.DeleteFunc(c.waiting, func(r *fakeClient) bool {
		if i := r.Upstream(); i >= 0 {
			c.servers[i] = append(c.servers[i], &servedByIt{r, 5 + c.rand.IntN(30), 0})
			if c.announce != "" {
				r.Head(200, [2]string{"content-type", "text/event-stream"})
				r.Data(c.announce)
			}
			return true
		}
		return r.ended
	})
}

func (c *crowd) run(d time.Duration) {
	var fullest []int
	c.served = 0
	for end := c.now + d; c.now < end; {
		c.step()
		most := 0
		for _, running := range c.servers[:c.gone] {
			most = max(most, len(running))
		}
		fullest = append(fullest, most)
	}
	slices.Sort(fullest)
	c.most = fullest[len(fullest)-1-len(fullest)/100]
}

func fullPage(running, waiting int) string {
	return fmt.Sprintf("vllm:num_requests_running %d\nvllm:num_requests_waiting %d\n", running, waiting)
}

// pushFaults are what becomes of a server's metrics.
var pushFaults = map[string]func(running, waiting int) string{
	"no answer": func(int, int) string { return "" },
	"empty":     func(int, int) string { return "\n" },
	"another page": func(int, int) string {
		return "<html>Sign in</html>\n"
	},
	"renamed": func(running, waiting int) string {
		return strings.ReplaceAll(fullPage(running, waiting), "vllm:", "vllm2:")
	},
	"one family renamed": func(running, waiting int) string {
		return strings.ReplaceAll(fullPage(running, waiting), "waiting", "queued")
	},
}

// testStall runs a crowd under the shipped configuration, first with metrics, then without those of some servers: for
// the time for which metrics count, and then for some more.
func testStall(t *testing.T, c *crowd, fault func(running, waiting int) string, gone int, spans ...time.Duration) {
	t.Helper()
	c.servers = make([][]*servedByIt, len(c.endpoints))
	c.page = func(_, running, waiting int) string { return fullPage(running, waiting) }
	c.run(20 * time.Second)
	c.run(10 * time.Second)
	before := float64(c.served) / 10
	c.gone = gone
	c.page = func(server, running, waiting int) string {
		if server < gone {
			return fault(running, waiting)
		}
		return fullPage(running, waiting)
	}
	for i, d := range append([]time.Duration{4 * time.Second}, spans...) {
		c.run(d)
		rate := float64(c.served) / d.Seconds()
		t.Logf("in %v: at most %d in flight, %.1f answers/s, %.1f before", d, c.most, rate, before)
		if more := 2; c.most > crowdSlots+more && i > 0 || c.most > crowdSlots+2*more {
			t.Errorf("in %v: %d requests are in flight at a server that runs %d", d, c.most, crowdSlots)
		}
		// Answers end in waves: half of those in flight may end just after the span.
		if late := crowdSlots * len(c.servers) / 2; float64(c.served+late) < 0.85*before*d.Seconds() {
			t.Errorf("in %v: %.1f answers/s, %.1f with metrics", d, rate, before)
		}
	}
}

// When metrics of one server or of all become useless, the limits that they have shown hold, whatever the fault, and
// whether or not answers are streamed.
func TestPushHoldsWithoutMetrics(t *testing.T) {
	for name, fault := range pushFaults {
		for _, streamed := range []bool{false, true} {
			for _, gone := range []int{1, 3} {
				t.Run(fmt.Sprintf("%s/streamed=%v/%d of 3", name, streamed, gone), func(t *testing.T) {
					spans := []time.Duration{3 * time.Second, 20 * time.Second}
					if name == "no answer" && gone == 3 && !testing.Short() {
						spans = append(spans, 10*time.Minute)
					}
					c := &crowd{fakeDriver: startFake(t, 2, 3, overloadConfig(t, nil)), streamed: streamed}
					testStall(t, c, fault, gone, spans...)
				})
			}
		}
	}
}

// The same with counts in Redis.
func TestPushHoldsWithoutMetricsInRedis(t *testing.T) {
	server := redisserver.StartT(t, redisserver.Options{})
	for _, streamed := range []bool{false, true} {
		d := &fakeDriver{fakeProcess: newFakeProcess(t, 2)}
		d.attachRedis(t, server).latency = time.Millisecond
		d.SetEndpoints(make([]streamtest.Endpoint, 3))
		if !d.configure(overloadConfig(t, map[string]any{"serviceFQDN": "redis.static", "password": "my secret"})) {
			t.Fatal("refused")
		}
		testStall(t, &crowd{fakeDriver: d, streamed: streamed}, pushFaults["no answer"], 3, 20*time.Second)
	}
}

// What servers send of an answer before they have computed anything does not look like a short wait in them: without
// metrics, no more requests are pushed than where they send nothing.
func TestControlFramesRaiseNoLimits(t *testing.T) {
	most := func(announce string) int {
		c := &crowd{fakeDriver: startFake(t, 2, 2, overloadConfig(t, nil)), streamed: true, announce: announce, gone: 2}
		c.servers = make([][]*servedByIt, len(c.endpoints))
		c.page = func(int, int, int) string { return "" }
		c.run(3 * time.Minute)
		c.run(time.Minute)
		return c.most
	}
	silent := most("")
	for _, announce := range []string{createdEvent, ": keep-alive\n\n"} {
		if n := most(announce); n > 2*crowdSlots { // 16, if such a frame were taken for a first token
			t.Errorf("behind %q: %d requests at a server that runs %d, %d where nothing comes first", announce, n,
				crowdSlots, silent)
		}
	}
}
