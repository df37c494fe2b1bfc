package security

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/redisserver"
)

// monitor is every command that a Redis server receives.
type monitor struct {
	conn net.Conn
	mu   sync.Mutex
	text strings.Builder
}

// watch listens to the server until the test ends.
func watch(t *testing.T, s *redisserver.Server) *monitor {
	t.Helper()
	conn, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	m := &monitor{conn: conn}
	lines := bufio.NewReaderSize(conn, 1<<20)
	if _, err := conn.Write([]byte("MONITOR\r\n")); err != nil {
		t.Fatal(err)
	}
	if line, err := lines.ReadString('\n'); err != nil || line != "+OK\r\n" {
		t.Fatalf("MONITOR: %q, %v", line, err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return // closed
			}
			m.mu.Lock()
			m.text.WriteString(line)
			m.mu.Unlock()
		}
	}()
	t.Cleanup(func() { conn.Close(); <-ended })
	return m
}

// String returns the commands so far.
func (m *monitor) String() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.text.String()
}

// TestPromptsStayInside puts the canary wherever a client of prefix_cache can put text, and into its secret, and
// searches all output of the plugin for it: the logs at their most verbose, statistics, headers of answers, commands to
// Redis and what Redis keeps.
func TestPromptsStayInside(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 6*harness.Patience)
	defer cancel()
	f := newFleet(t, 2)
	redis := redisserver.StartT(t, redisserver.Options{})
	commands := watch(t, redis)
	config := strings.Replace(fmt.Sprintf(caching, `"enableDetailLog":true,"reserve_timeout":"5s",`, `,"redis_cluster":"warmgate-redis"`),
		`"secret":"s"`, `"secret":"`+canary+`"`, 1)
	g := harness.StartT(t, harness.Options{
		Endpoints: f.endpoints, Redis: redis.Addr(), Config: config, LogLevel: "info", WasmLevel: "trace",
	})
	long := strings.Repeat(canary+" ", 200)
	bodies := []string{
		`{"model":"` + canary + `","messages":[{"role":"user","content":"` + long + `"}]}`,
		`{"model":"m","lora_path":"` + canary + `","cache_salt":"` + canary + `","prompt":"` + long + `"}`,
		`{"model":"m","messages":[{"role":"` + canary + `","content":[{"type":"text","` + canary + `":"` + long + `"}]}],"user":"` + canary + `"}`,
		`{"model":"m","tools":[{"name":"` + canary + `"}],"messages":[],"x":"` + strings.Repeat(long, 100) + `"}`,
		`{"model":"m","messages":"` + long,                        // cut off
		`{"model":"m","messages":[],"messages":["` + long + `"]}`, // ambiguous
	}
	var answers strings.Builder
	for range 3 { // the second and third time the prompts are known
		for _, body := range bodies {
			answers.WriteString(conversed(t, g, body))
		}
	}
	awaitLines(t, g, 3*len(bodies))
	prometheus, err := g.Prometheus(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ text, witness string }{
		"Envoy's log":            {g.Logs(), "reason=chosen"},
		"the access log":         {g.AccessLog(), "reason=chosen"},
		"the statistics":         {prometheus, "warmgate_prompt_tokens_total"},
		"the headers of answers": {answers.String(), "X-Warmgate-Match: 1.00"},
		"the commands to Redis":  {commands.String(), "EVALSHA"},
		"what Redis keeps":       {kept(t, redis), "warmgate"},
	} {
		if !strings.Contains(strings.ToLower(c.text), strings.ToLower(c.witness)) {
			t.Errorf("%s: nothing of %q, so that was not tested", name, c.witness)
		}
		wantNoCanary(t, name, c.text)
	}
}

// conversed sends a request as a tenant of the canary's name and returns the headers of the answer.
func conversed(t *testing.T, g *harness.Gateway, body string) string {
	t.Helper()
	a := harness.Send(t, http.DefaultClient, http.MethodPost, g.URL()+owner.path+"?key="+canary, body,
		"X-Tenant: "+canary, "Authorization: Bearer "+canary)
	var text strings.Builder
	if err := a.Header.Write(&text); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// kept returns the names and values of all keys.
func kept(t *testing.T, s *redisserver.Server) string {
	t.Helper()
	const dump = `local out = {}
		local read = {string = {'GET'}, hash = {'HGETALL'}, zset = {'ZRANGE', 0, -1}, set = {'SMEMBERS'}, list = {'LRANGE', 0, -1}}
		for _, key in ipairs(redis.call('KEYS', '*')) do
			local how = read[redis.call('TYPE', key).ok]
			local value = redis.call(how[1], key, unpack(how, 2))
			if type(value) == 'table' then value = table.concat(value, ' ') end
			out[#out + 1] = key .. ' ' .. value
		end
		return table.concat(out, '\n')`
	text, err := s.Do("EVAL", dump, "0")
	if err != nil {
		t.Fatal(err)
	}
	return text.String()
}
