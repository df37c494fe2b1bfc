package snapshot

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/internal/state"
	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/redisclient"
)

// bulk returns texts as Redis answers them.
func bulk(texts ...string) (out string) {
	for _, text := range texts {
		out += fmt.Sprintf("$%d\r\n%s\r\n", len(text), text)
	}
	return out
}

// scopeAnswers are what Redis answers about the scope llm, by command and key: two endpoints, of three VMs one of which
// is dead, and five requests that wait.
func scopeAnswers() map[string]string {
	keys := redisclient.KeysOf("llm")
	table := wire.Writer("epoch..1").Uint32(0).Uint(3, 2).Byte(1).Uint(3, 4).Uint(6, 900).Uint(3, 0).Uint(6, 0)
	queue := wire.Writer("epoch..1stamp..1").Uint32(5)
	queue = append(queue, make([]byte, 100)...)
	return map[string]string{
		"GETRANGE " + keys.Table:       bulk(string(table)),
		"HSCAN " + keys.Rows:           "*2\r\n" + bulk("0") + "*6\r\n" + bulk("", "\x01\x00", "b:1", "1", "a:1", "0"),
		"TIME":                         "*2\r\n" + bulk("1000", "5"),
		"ZRANGEBYSCORE " + keys.Owners: "*2\r\n" + bulk("x", "y"),
		"GETRANGE " + keys.Queue:       bulk(string(queue)),
		"HLEN " + keys.PagesKey(1<<20): ":7\r\n",
		"INFO server":                  bulk("# Server\r\nredis_version:7.2.0\r\n"),
		"AUTH u":                       "+OK\r\n",
		"SELECT 3":                     "+OK\r\n",
	}
}

// serveRedis answers commands at a listener by their first two words; others as keys that are not there.
func serveRedis(t *testing.T, listener net.Listener, answers map[string]string) {
	t.Helper()
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go answerRedis(conn, answers)
		}
	}()
}

func answerRedis(conn net.Conn, answers map[string]string) {
	defer conn.Close()
	for in := bufio.NewReader(conn); ; {
		var n int
		if _, err := fmt.Fscanf(in, "*%d\r\n", &n); err != nil {
			return
		}
		var words []string
		for range n {
			var size int
			_, _ = fmt.Fscanf(in, "$%d\r\n", &size)
			word := make([]byte, size+2)
			_, _ = io.ReadFull(in, word)
			words = append(words, string(word[:size]))
		}
		answer, ok := answers[strings.Join(words[:min(n, 2)], " ")]
		if !ok {
			answer = map[string]string{
				"GETRANGE": bulk(""), "HSCAN": "*2\r\n" + bulk("0") + "*0\r\n", "ZRANGEBYSCORE": "*0\r\n",
				"HLEN": ":0\r\n",
			}[words[0]]
		}
		if _, err := io.WriteString(conn, answer); err != nil {
			return
		}
	}
}

// TestRedis reads what gateways share, with a login and over TLS.
func TestRedis(t *testing.T) {
	web := httptest.NewUnstartedServer(nil)
	web.StartTLS()
	defer web.Close()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", web.TLS)
	if err != nil {
		t.Fatal(err)
	}
	serveRedis(t, listener, scopeAnswers())
	trusted := x509.NewCertPool()
	trusted.AddCert(web.Certificate())
	source := RedisSource{
		Address: listener.Addr().String(), TLS: &tls.Config{RootCAs: trusted},
		Username: "u", Password: canary, Database: 3,
	}
	got := source.read(t.Context(), []wanted{{"llm", []int{1 << 20}}, {"idle", []int{1 << 20}}})
	want := &Redis{Version: "7.2.0", Scopes: []SharedScope{{
		Name: "llm", Owners: 2, Waiting: 5, Pages: 7,
		Endpoints: []SharedLoad{{Addr: "a:1", Requests: 4, Tokens: 900}, {Addr: "b:1"}},
	}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	source.TLS = &tls.Config{}
	if got := source.read(t.Context(), []wanted{{"llm", nil}}); len(got.Problems) != 1 || got.Scopes != nil {
		t.Errorf("without trust: %+v", got)
	}
}

// TestRedisProblems reads servers that refuse, cannot be understood or do not end, and tells no password.
func TestRedisProblems(t *testing.T) {
	table := "GETRANGE " + redisclient.KeysOf("llm").Table
	for name, c := range map[string]struct{ command, answer, problem string }{
		"login":    {"AUTH u", "-ERR unknown, with args " + canary + "\r\n", "ERR is the answer to AUTH"},
		"database": {"SELECT 3", "-ERR out of range\r\n", "ERR is the answer to SELECT"},
		"cluster":  {table, "-MOVED 1 10.0.0.1:6379\r\n", "MOVED is the answer to GETRANGE"},
		"web":      {table, "HTTP/1.1 200 OK\r\n\r\n" + canary, redisclient.ErrGarbage.Error()},
		"endless":  {table, "+" + strings.Repeat("x", 1<<16), redisclient.ErrGarbage.Error()},
		"rows":     {"HSCAN " + redisclient.KeysOf("llm").Rows, ":1\r\n", redisclient.ErrGarbage.Error()},
		"slow":     {table, "$9\r\nhalf", "i/o timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			answers := scopeAnswers()
			answers[c.command] = c.answer
			serveRedis(t, listener, answers)
			source := RedisSource{Address: listener.Addr().String(), Username: "u", Password: canary, Database: 3}
			got := source.read(t.Context(), []wanted{{"llm", nil}})
			if len(got.Problems) != 1 || !strings.Contains(got.Problems[0], c.problem) || got.Scopes != nil ||
				strings.Contains(got.Problems[0], canary) {
				t.Errorf("%+v", got)
			}
		})
	}
	source := RedisSource{Address: "unix:/nowhere"}
	if got := source.read(t.Context(), nil); len(got.Problems) != 2 {
		t.Errorf("%+v", got)
	}
}

// TestScopes names what is counted in Redis: scopes that are configured, else clusters.
func TestScopes(t *testing.T) {
	r := NewReader("", []Source{{Name: "a"}, {Name: "b"}}, nil)
	r.asked[1].dump = &dump{shared: []shared{{"", 1}, {"mine", 2}, {"mine", 3}}}
	got := r.scopes(&Snapshot{Gateways: []Gateway{
		{Statistics: []Statistic{{Labels: map[string]string{"cluster": "x"}}, {}}},
		{State: &state.State{Clusters: []state.Cluster{{Name: "y"}}}},
	}})
	want := []wanted{{"mine", []int{2, 3}}, {"x", []int{0}}, {"y", []int{1}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
