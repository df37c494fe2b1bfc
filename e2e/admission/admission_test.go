package admission

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/harness"
)

const (
	apiPath = "/warmgate/v1"
	token   = "0123456789abcdef"
	ttl     = 8 * time.Second
)

// plugin is a configuration of two targets that take six tasks. Their TTL is longer than any pause of a test.
const plugin = `{"lb_type":"cluster","lb_policy":"token_budget","lb_config":{"debug_headers":true,"targets":{
	"gpt-4o-mini":{"weight":2,"max_concurrent_requests":4,"max_tokens_per_minute":1000000},
	"gpt-4o":{"weight":1,"max_concurrent_requests":2,"max_requests_per_minute":60000}},
	"api":{"path":"` + apiPath + `","token":"` + token + `","lease_ttl":"1m"}}}`

// expiring is the same with tasks that live for the ttl without a heartbeat.
var expiring = strings.Replace(plugin, `"1m"`, `"`+ttl.String()+`"`, 1)

// gateway is one whose only upstream must never see a call.
type gateway struct {
	*testing.T
	*harness.Gateway
}

func start(t *testing.T, config string) *gateway {
	t.Helper()
	return startWith(t, harness.Options{Config: config})
}

func startWith(t *testing.T, o harness.Options) *gateway {
	t.Helper()
	o.Endpoints = harness.Models(t, 1)
	gw := harness.StartT(t, o)
	g := &gateway{t, gw}
	t.Cleanup(func() {
		if strings.Contains(gw.AccessLog()+gw.Logs(), token) {
			t.Error("the token is in a log")
		}
	})
	return g
}

// call sends a call on a connection of its own, so that workers take turns. Without a body it is a GET.
func (g *gateway) call(name, body string) (int, map[string]any) {
	g.Helper()
	method, content := "POST", io.Reader(strings.NewReader(body))
	if body == "" {
		method, content = "GET", nil
	}
	r, err := http.NewRequestWithContext(g.Context(), method, g.URL()+apiPath+name, content)
	if err != nil {
		g.Error(err)
		return 0, nil
	}
	r.Header.Set("authorization", "Bearer "+token)
	r.Close = true
	return g.do(r)
}

func (g *gateway) do(r *http.Request) (int, map[string]any) {
	g.Helper()
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		g.Error(err)
		return 0, nil
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	var answer map[string]any
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	if err != nil {
		g.Errorf("%s %s: answered %d %s: %v", r.Method, r.URL.Path, resp.StatusCode, text, err)
	}
	for name := range resp.Header {
		if strings.HasPrefix(strings.ToLower(name), "x-warmgate-") {
			g.Errorf("an answer with %s", name)
		}
	}
	return resp.StatusCode, answer
}

// schedule returns the target and the id of a task, "" while it has to wait.
func (g *gateway) schedule(more string) (target, id string) {
	g.Helper()
	status, answer := g.call("/schedule", `{"estimated_tokens":1000`+more+`}`)
	target, _ = answer["model_backend_id"].(string)
	id, _ = answer["task_id"].(string)
	_, waits := answer["wait_for_ms"]
	if status != 200 || waits == (id != "") || (id == "") != (target == "") {
		g.Errorf("schedule: answered %d %v", status, answer)
	}
	return target, id
}

func (g *gateway) ok(name, id string) bool {
	g.Helper()
	status, answer := g.call(name, `{"task_id":"`+id+`"}`)
	return status == 200 && answer["ok"] == true
}

// Callers on many connections, and so on both workers, never have more tasks than the targets take; all of them are
// done, and every slot comes back.
func TestCapsOverWorkers(t *testing.T) {
	g := start(t, plugin)
	work(t, g)
	_, models := g.call("/models", "")
	if text := fmt.Sprint(models); strings.Count(text, "in_flight:0") != 4 { // requests and tokens of two targets
		t.Errorf("when all is done: %s", text)
	}
	if n := g.counter("schedule_admitted"); n != 120 {
		t.Errorf("%v tasks are counted", n)
	}
}

// work has callers schedule 120 tasks at the gateways in turn, and tell the next one of what becomes of them. It fails
// the test if a target has more of them than it takes.
func work(t *testing.T, gateways ...*gateway) {
	t.Helper()
	caps := map[string]int{"gpt-4o-mini": 4, "gpt-4o": 2}
	var mu sync.Mutex
	inflight, served := map[string]int{}, map[string]int{}
	count := func(target string, n int) {
		mu.Lock()
		defer mu.Unlock()
		if inflight[target] += n; inflight[target] > caps[target] {
			t.Errorf("%d tasks at %s", inflight[target], target)
		}
		served[target] += max(n, 0)
	}
	var callers sync.WaitGroup
	for caller := range 12 {
		at, next := gateways[caller%len(gateways)], gateways[(caller+1)%len(gateways)]
		callers.Add(1)
		go func() {
			defer callers.Done()
			for range 10 {
				var target, id string
				for id == "" && !t.Failed() {
					if target, id = at.schedule(""); id == "" {
						time.Sleep(20 * time.Millisecond)
					}
				}
				count(target, 1)
				if !next.ok("/heartbeat", id) {
					t.Error("a task that lives is not found")
				}
				count(target, -1) // before the store knows
				if !next.ok("/complete", id) {
					t.Error("a task that lives cannot be completed")
				}
			}
		}()
	}
	callers.Wait()
	if served["gpt-4o-mini"]+served["gpt-4o"] != 120 || served["gpt-4o"] == 0 {
		t.Errorf("served %v", served)
	}
}

// counter returns how many calls had that result.
func (g *gateway) counter(result string) float64 {
	g.Helper()
	return g.SumT(g.T, `^wasmcustom\.warmgate_api_calls_total;result=`+result+`$`)
}

// A caller that dies loses its tasks within the TTL and a second; the same key gives the same task on any connection.
func TestLeases(t *testing.T) {
	g := start(t, expiring)
	target, id := g.schedule(`,"idempotency_key":"a"`)
	for range 6 {
		if again, same := g.schedule(`,"idempotency_key":"a"`); again != target || same != id {
			t.Errorf("the same key gives %s at %s, want %s at %s", same, again, id, target)
		}
	}
	var dead []string
	for {
		_, id := g.schedule("")
		if id == "" {
			break
		}
		dead = append(dead, id)
	}
	if len(dead) != 5 {
		t.Fatalf("%d tasks beside the first", len(dead))
	}
	from := time.Now()
	for time.Since(from) < ttl+time.Second {
		if !g.ok("/heartbeat", id) {
			t.Fatal("a task that is renewed was abandoned")
		}
		time.Sleep(ttl / 10)
	}
	harness.Await(t, func() error {
		if _, next := g.schedule(""); next == "" {
			return fmt.Errorf("slots are not given back %v after the last heartbeat", time.Since(from))
		}
		return nil
	})
	for range 2 { // twice is no error
		if !g.ok("/complete", id) {
			t.Error("completing a task is an error")
		}
	}
	if status, answer := g.call("/complete", `{"task_id":"tsk_00000000000000000000000000000000"}`); status != 404 ||
		answer["error"] != "Task not found" {
		t.Errorf("an unknown task: %d %v", status, answer)
	}
}

// Bodies may come in parts, without a length, or after 100 Continue. Those that are too long or compressed are refused,
// and so is what is not said in time to be a call.
func TestBodies(t *testing.T) {
	g := start(t, plugin)
	head := "POST " + apiPath + "/heartbeat HTTP/1.1\r\nhost: x\r\nauthorization: Bearer " + token + "\r\n"
	const body = `{"task_id":"x"}`
	const unknown = `{"ok":false,"reason":"not_found"}`
	for name, c := range map[string]struct {
		parts  []string
		status string
		answer string
	}{
		"in parts": {[]string{head + "content-length: 15\r\n\r\n" + body[:4], body[4:9], body[9:]}, "200", unknown},
		"chunked": {
			[]string{
				head + "transfer-encoding: chunked\r\n\r\n", "5\r\n" + body[:5] + "\r\n",
				"a\r\n" + body[5:] + "\r\n0\r\n\r\n",
			}, "200", unknown,
		},
		"one byte at a time": {
			append([]string{head + "content-length: 15\r\n\r\n"}, strings.Split(body, "")...), "200", unknown,
		},
		"expect":   {[]string{head + "expect: 100-continue\r\ncontent-length: 15\r\n\r\n", body}, "200", unknown},
		"too long": {[]string{head + "content-length: 70000\r\n\r\n"}, "413", ""},
		"too long, chunked": {
			[]string{head + "transfer-encoding: chunked\r\n\r\n11170\r\n" + strings.Repeat(" ", 0x11170) + "\r\n"},
			"413", "",
		},
		"compressed": {[]string{head + "content-encoding: gzip\r\ncontent-length: 15\r\n\r\n" + body}, "415", ""},
		"none":       {[]string{head + "content-length: 0\r\n\r\n"}, "400", ""},
		"no token":   {[]string{strings.Replace(head, token, "", 1) + "content-length: 15\r\n\r\n"}, "401", ""},
	} {
		status, text := g.raw(c.parts)
		if status != c.status || c.answer != "" && text != c.answer || !json.Valid([]byte(text)) {
			t.Errorf("%s: answered %s %q, want %s %s", name, status, text, c.status, c.answer)
		}
	}
}

// raw sends the parts on a connection of their own, one after the other, and returns the status and body of the answer.
func (g *gateway) raw(parts []string) (status, body string) {
	g.Helper()
	ctx, cancel := context.WithTimeout(g.Context(), harness.Patience)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", g.Addr())
	if err != nil {
		g.Fatal(err)
	}
	defer conn.Close()
	for _, p := range parts {
		if _, err := io.WriteString(conn, p); err != nil {
			break // it has been answered
		}
		time.Sleep(10 * time.Millisecond)
	}
	in := bufio.NewReader(conn)
	for {
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			g.Fatal(err)
		}
		if resp.StatusCode == 100 {
			continue
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			g.Fatal(err)
		}
		return resp.Status[:3], string(text)
	}
}
