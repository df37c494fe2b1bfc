package redisclient_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/redisclient"
)

// causeOf returns why a reservation fails when every command is answered with the given reply.
func causeOf(t tb, reply string) string {
	t.Helper()
	m := &manualTransport{}
	r := reserve(newManualStore(m, newMemory()), 0, 1)
	for i := 0; i < len(m.done) && i < 20; i++ {
		m.answer(0, i, reply)
	}
	if r.calls != 1 || r.err == nil {
		t.Fatalf("%q: %s", reply, r)
	}
	_, text, found := strings.Cut(reply, " ")
	if found && strings.Contains(r.err.Error(), strings.TrimSpace(text)) {
		t.Errorf("the error shows the text of the reply: %v", r.err)
	}
	return redisclient.Cause(r.err)
}

// causesOfReplies are the cases of TestCauses.
var causesOfReplies = map[string]string{
	"-ERR unknown command 'EVALSHA'": "error",
	"-":                              "error",
	"-secret password":               "error",
	"-OOMOOMOOMOOMOOMOOMOOMOOMOOM x": "error",
	"-UNKILLABLE Sorry the script already executed":                                           "busy",
	"-MASTERDOWN Link with MASTER is down":                                                    "cluster_down",
	"-TRYAGAIN Multiple keys request during rehashing":                                        "moved",
	"-WGFULL too many endpoints in the scope":                                                 "no_room",
	"-ERR Error running script (call to f_1): @user_script:9: -OOM command not allowed":       "oom",
	"-ERR Error running script (call to f_1): @user_script: 9: -READONLY You can't write":     "readonly",
	"-ERR Error running script (call to f_1): @user_script:9: @user_script: 9: NOPERM denied": "denied",
	"-@user_script: 9: -OOM command not allowed when used memory > 'maxmemory'.":              "oom",
	"-@user_script: 9: something else":                                                        "error",
	"-ERR Error running script: the user said OOM":                                            "error",
	"-NOSCRIPT No matching script. Please use EVAL.":                                          "script",
	"-EXECABORT Transaction discarded because of previous errors.":                            "error",
	"-IOERR error or timeout writing to target instance":                                      "error",
}

func TestCauses(t *testing.T) {
	for reply, want := range causesOfReplies {
		if got := causeOf(t, reply+"\r\n"); got != want {
			t.Errorf("%q: %s, want %s", reply, got, want)
		}
	}
	for err, want := range map[error]string{
		redisclient.ErrTimeout: "timeout", redisclient.ErrUnreachable: "unreachable",
		redisclient.ErrBreakerOpen: "breaker_open", lb.ErrRemoteDown: "breaker_open",
		redisclient.ErrGarbage: "garbage", redisclient.ErrIncomplete: "garbage",
		redisclient.ErrCandidatesLost: "script", errors.New("anything"): "error",
		fmt.Errorf("llm: %w", redisclient.ErrTimeout): "timeout",
	} {
		if got := redisclient.Cause(err); got != want {
			t.Errorf("%v: %s, want %s", err, got, want)
		}
		if !slices.Contains(redisclient.Causes(), want) {
			t.Errorf("%s is not among the causes", want)
		}
	}
}

// trouble is a state of a server in which it refuses commands.
type trouble struct {
	name   string
	enter  [][]any
	leave  [][]any
	refuse []string // names of the refusable commands that it refuses
	want   string
}

// Commands that are refused, outside and inside of scripts.
var refusable = map[string][]string{
	"set":    {"SET", "k", "v"},
	"eval":   {"EVAL", "return redis.call('SET', KEYS[1], 'v')", "1", "k"},
	"peval":  {"EVAL", "return redis.pcall('SET', KEYS[1], 'v')", "1", "k"},
	"get":    {"GET", "k"},
	"load":   {"SCRIPT", "LOAD", "return 1"},
	"ping":   {"PING"},
	"across": {"MSET", "a", "1", "b", "1"},
	"sha":    {"EVALSHA", strings.Repeat("0", 40), "0"},
}

var writes = []string{"set", "eval", "peval"}

var troubles = []trouble{
	{
		name: "out of memory", enter: [][]any{{"CONFIG", "SET", "maxmemory", "1"}},
		leave:  [][]any{{"CONFIG", "SET", "maxmemory", "0"}},
		refuse: writes, want: "oom",
	},
	{
		name: "replica", enter: [][]any{{"REPLICAOF", "127.0.0.1", "1"}}, leave: [][]any{{"REPLICAOF", "NO", "ONE"}},
		refuse: writes, want: "readonly",
	},
	{
		name:   "replica without a master",
		enter:  [][]any{{"REPLICAOF", "127.0.0.1", "1"}, {"CONFIG", "SET", "replica-serve-stale-data", "no"}},
		leave:  [][]any{{"REPLICAOF", "NO", "ONE"}, {"CONFIG", "SET", "replica-serve-stale-data", "yes"}},
		refuse: []string{"get"}, want: "cluster_down",
	},
	{
		name: "too few replicas", enter: [][]any{{"CONFIG", "SET", "min-replicas-to-write", "1"}},
		leave: [][]any{{"CONFIG", "SET", "min-replicas-to-write", "0"}}, refuse: writes, want: "readonly",
	},
	{
		name: "a command denied", enter: [][]any{{"ACL", "SETUSER", "default", "-set"}},
		leave: [][]any{{"ACL", "SETUSER", "default", "+@all"}}, refuse: writes, want: "denied",
	},
	{
		name: "keys denied", enter: [][]any{{"ACL", "SETUSER", "default", "resetkeys", "~other"}},
		leave:  [][]any{{"ACL", "SETUSER", "default", "allkeys"}},
		refuse: append([]string{"get"}, writes...), want: "denied",
	},
	{
		name: "scripts denied", enter: [][]any{{"ACL", "SETUSER", "default", "-@scripting"}},
		leave: [][]any{{"ACL", "SETUSER", "default", "+@all"}}, refuse: []string{"eval", "load", "sha"}, want: "denied",
	},
	{name: "unknown script", refuse: []string{"sha"}, want: "script"},
}

// The texts of real servers are understood, in and outside of scripts.
func TestCausesOnServers(t *testing.T) {
	for _, version := range redisserver.Versions() {
		t.Run(version, func(t *testing.T) {
			s := redisserver.StartT(t, redisserver.Options{Version: version})
			w := dial(t, s)
			for _, tr := range troubles {
				mustDo(t, s, tr.enter...)
				wantRefused(t, w, tr.name, tr.want, tr.refuse...)
				mustDo(t, s, tr.leave...)
			}
			for name, command := range refusable {
				if reply := w.roundTrip(redisclient.AppendCommand(nil, command...)); reply[0] == '-' && name != "sha" {
					t.Errorf("%s is refused still: %s", name, reply)
				}
			}
			mustDo(t, s, []any{"CONFIG", "SET", "requirepass", "secret"})
			w = dial(t, s)
			wantRefused(t, w, "no password", "auth", "get", "eval", "sha")
			w.wantCause("wrong password", "auth", "AUTH", "wrong")
			w.wantCause("wrong user", "auth", "AUTH", "nobody", "secret")
			busyServer(t, s)
		})
		t.Run(version+", MISCONF", func(t *testing.T) { misconfigured(t, version) })
		t.Run(version+", LOADING", func(t *testing.T) { loading(t, version) })
		t.Run(version+", cluster", func(t *testing.T) {
			s := redisserver.StartT(t, redisserver.Options{Version: version, Config: []string{"cluster-enabled yes"}})
			wantRefused(t, dial(t, s), "no slots", "cluster_down", "get", "eval")
		})
	}
}

func mustDo(t tb, s *redisserver.Server, commands ...[]any) {
	t.Helper()
	for _, c := range commands {
		if _, err := s.Do(c...); err != nil {
			t.Fatalf("%v: %v", c, err)
		}
	}
}

func wantRefused(t tb, w *syncTransport, name, want string, commands ...string) {
	t.Helper()
	for _, c := range commands {
		w.wantCause(name, want, refusable[c]...)
	}
}

// wantCause sends a command, which must be refused for the given cause.
func (w *syncTransport) wantCause(name, want string, command ...string) {
	w.t.Helper()
	reply := w.roundTrip(redisclient.AppendCommand(nil, command...))
	if reply[0] != '-' {
		w.t.Fatalf("%s: %q is answered with %q", name, command, reply)
	}
	if got := causeOf(w.t, string(reply)); got != want {
		w.t.Errorf("%s: %q is %s, want %s", name, reply, got, want)
	}
}

// busyServer keeps the server busy with a script.
func busyServer(t *testing.T, s *redisserver.Server) {
	mustDo(t, s, []any{"CONFIG", "SET", "requirepass", ""}, []any{"CONFIG", "SET", "lua-time-limit", "5"})
	w, killer := dial(t, s), dial(t, s)
	loop := dial(t, s)
	if _, err := loop.conn.Write(redisclient.AppendCommand(nil, "EVAL", "while true do end", "0")); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool {
		return strings.HasPrefix(string(w.roundTrip(redisclient.AppendCommand(nil, "PING"))), "-")
	})
	wantRefused(t, w, "busy", "busy", "get", "eval", "sha", "ping")
	killer.value("SCRIPT", "KILL")
}

// eventually waits until a condition holds that a server brings about in the background.
func eventually(t tb, ready func() bool) {
	t.Helper()
	for range 60_000 { // five minutes
		if ready() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatal("it does not happen")
}

// misconfigured makes snapshots fail, upon which servers refuse writes.
func misconfigured(t *testing.T, version string) {
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s := redisserver.StartT(t, redisserver.Options{Version: version, Dir: dir, Config: []string{"save 3600 1"}})
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	mustDo(t, s, []any{"BGSAVE"})
	eventually(t, func() bool {
		info, err := s.Info("persistence")
		return err == nil && info["rdb_last_bgsave_status"] == "err"
	})
	wantRefused(t, dial(t, s), "no snapshots", "readonly", writes...)
}

// loading makes a server load its data slowly. It answers after every 2 MB.
func loading(t *testing.T, version string) {
	s := redisserver.StartT(t, redisserver.Options{
		Version: version, Dir: t.TempDir(), Config: []string{"key-load-delay 600", "rdbcompression no"},
	})
	dial(t, s).value("EVAL", "for i = 1, 10000 do redis.call('SET', i, string.rep('x', 2000)) end", "0")
	mustDo(t, s, []any{"SAVE"})
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, dial(t, s), "loading", "loading", "get", "eval", "sha")
}
