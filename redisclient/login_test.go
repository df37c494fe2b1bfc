package redisclient_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/redisclient"
)

const (
	// authUser is the command that logs in as user u with password p.
	authUser  = "*3\r\n$4\r\nAUTH\r\n$1\r\nu\r\n$1\r\np\r\n"
	select3   = "*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n"
	okReply   = "+OK\r\n"
	wrongPass = "-WRONGPASS invalid username-password pair or user is disabled.\r\n"
	noIndex   = "-ERR DB index is out of range\r\n"
	noAuth    = "-NOAUTH Authentication required.\r\n"
)

// logins are the cases of TestPipelineLogin: what a login consists of, and what commands end with after a reply to it.
var logins = []struct {
	name        string
	login       redisclient.Login
	body, reply string
	want        string
}{
	{"password", redisclient.Login{Password: "p"}, "*2\r\n$4\r\nAUTH\r\n$1\r\np\r\n", okReply + pong, "reply"},
	{"user", redisclient.Login{Username: "u", Password: "p"}, authUser, okReply + pong, "reply"},
	{
		"user and database",
		redisclient.Login{Username: "u", Password: "p", Database: 3},
		authUser + select3,
		okReply + okReply + pong, "reply",
	},
	{
		"wrong password",
		redisclient.Login{Username: "u", Password: "p"},
		authUser, wrongPass + pong,
		"auth: AUTH was answered with WRONGPASS",
	},
	{
		"wrong password, no other user",
		redisclient.Login{Username: "u", Password: "p"},
		authUser, wrongPass + noAuth,
		"auth: AUTH was answered with WRONGPASS",
	},
	{
		"a password that nobody has set",
		redisclient.Login{Password: "p"},
		"*2\r\n$4\r\nAUTH\r\n$1\r\np\r\n",
		"-ERR AUTH <password> called without any password configured for the default user.\r\n" + pong,
		"auth: AUTH was answered with ERR",
	},
	{
		"no such database",
		redisclient.Login{Database: 3},
		select3, noIndex + pong,
		"auth: SELECT was answered with ERR",
	},
	{
		"wrong password, no such database",
		redisclient.Login{Username: "u", Password: "p", Database: 3},
		authUser + select3, wrongPass + noIndex + pong, "auth: AUTH was answered with WRONGPASS",
	},
	{
		"database not allowed",
		redisclient.Login{Username: "u", Password: "p", Database: 3},
		authUser + select3,
		okReply + "-NOPERM User u has no permissions to run the 'select' command\r\n" + pong,
		"auth: SELECT was answered with NOPERM",
	},
	{
		"a server that is busy",
		redisclient.Login{Database: 3},
		select3,
		"-BUSY Redis is busy running a script.\r\n" + pong, "busy: SELECT was answered with BUSY",
	},
	{
		"a connection that is refused",
		redisclient.Login{Username: "u", Password: "p"},
		authUser,
		"-ERR max number of clients reached\r\n", "unreachable",
	},
	{
		"a server that refuses and hangs up",
		redisclient.Login{Username: "u", Password: "p", Database: 3},
		authUser + select3, wrongPass, "auth: AUTH was answered with WRONGPASS",
	},
	{"no Redis", redisclient.Login{Username: "u", Password: "p"}, authUser, "HTTP/1.1 400\r\n", "garbage"},
	{"no answer", redisclient.Login{Username: "u", Password: "p"}, authUser, "", "unreachable"},
	{"an early end", redisclient.Login{Username: "u", Password: "p"}, authUser, okReply, "unreachable"},
}

// end is what a command ended with: "reply", or why it failed.
func end(of *string) redisclient.Done {
	return func(_ time.Duration, reply []byte, err error) {
		if *of != "" {
			panic("answered twice")
		}
		switch {
		case err == nil:
			*of = "reply"
		case redisclient.Detail(err) != "":
			*of = redisclient.Cause(err) + ": " + redisclient.Detail(err)
		default:
			*of = redisclient.Cause(err)
		}
	}
}

// A node gets no command before it has accepted the login, nor after it has refused it, and the next command tries
// again.
func TestPipelineLogin(t *testing.T) {
	for _, c := range logins {
		t.Run(c.name, func(t *testing.T) {
			var fake manualRoundTrips
			p := redisclient.NewPipeline(c.login, time.Second, fake.call)
			var first, second, again string
			p.Do(0, []byte(get), end(&first))
			p.Do(0, []byte(get), end(&second))
			fake.want(t, c.body+ping)
			fake.dones[0](0, []byte(c.reply), nil)
			if c.want == "reply" {
				fake.want(t, c.body+ping, c.body+get+get+ping)
				fake.dones[1](0, []byte(strings.TrimSuffix(c.reply, pong)+":1\r\n:1\r\n"+pong), nil)
				p.Do(0, []byte(get), end(&again))
				fake.want(t, c.body+ping, c.body+get+get+ping, c.body+get+ping)
			} else {
				p.Do(0, []byte(get), end(&again))
				fake.want(t, c.body+ping, c.body+ping)
			}
			if first != c.want || second != c.want || again != "" {
				t.Errorf("the commands end with %q and %q, want %q; the next one with %q", first, second, c.want, again)
			}
		})
	}
}

// want fails the test unless these round trips were made.
func (c *manualRoundTrips) want(t *testing.T, bodies ...string) {
	t.Helper()
	if got, want := fmt.Sprintf("%q", c.bodies), fmt.Sprintf("%q", bodies); got != want {
		t.Fatalf("sent %s, want %s", got, want)
	}
}

// Each round trip logs in: if the login is refused in one with commands, these fail, and no more are sent. The same
// after a round trip that has failed in another way, since the server may be another one then.
func TestPipelineLoginEnds(t *testing.T) {
	const body = authUser
	for name, last := range map[string]struct {
		reply, want string
		err         error
	}{
		"refused":     {wrongPass + ":1\r\n" + pong, "auth: AUTH was answered with WRONGPASS", nil},
		"no answer":   {"", "timeout", redisclient.ErrTimeout},
		"cut":         {okReply + ":1\r\n", "reply", nil},
		"cut earlier": {okReply, "unreachable", nil},
		"nothing":     {"", "unreachable", nil},
	} {
		var fake manualRoundTrips
		p := redisclient.NewPipeline(redisclient.Login{Username: "u", Password: "p"}, time.Second, fake.call)
		var first, next string
		p.Do(0, []byte(get), end(&first))
		fake.dones[0](0, []byte(okReply+pong), nil)
		fake.dones[1](0, []byte(last.reply), last.err)
		if first != last.want {
			t.Errorf("%s: the command ends with %q, want %q", name, first, last.want)
		}
		p.Do(0, []byte(get), end(&next))
		fake.want(t, body+ping, body+get+ping, body+ping)
	}
}

// Each node of a Redis Cluster has users of its own, and is asked once.
func TestPipelineLoginOfNodes(t *testing.T) {
	var fake manualRoundTrips
	p := redisclient.NewPipeline(redisclient.Login{Username: "u", Password: "p"}, time.Second, fake.call)
	var home, other, again string
	p.Do(0, []byte(get), end(&home))
	p.DoAt(0, "10.0.0.9:6379", true, []byte(get), end(&other))
	fake.want(t, authUser+ping, authUser+ping)
	fake.dones[0](0, []byte(okReply+pong), nil)
	fake.dones[1](0, []byte(wrongPass+pong), nil)
	if home != "" || other != "auth: AUTH was answered with WRONGPASS" {
		t.Errorf("the configured server: %q, the other one: %q", home, other)
	}
	other = ""
	p.DoAt(0, "10.0.0.9:6379", true, []byte(get), end(&other))
	fake.dones[3](0, []byte(okReply+pong), nil)
	fake.dones[4](0, []byte(okReply+okReply+":1\r\n"+pong), nil)
	p.DoAt(0, "10.0.0.9:6379", false, []byte(get), end(&again))
	if want := authUser + get + ping; fake.bodies[len(fake.bodies)-1] != want {
		t.Errorf("an idle node is sent %q, want %q", fake.bodies[len(fake.bodies)-1], want)
	}
}

// gated starts a server with the user gate and the shipped rights, whose default user may do everything.
func gated(t *testing.T, version string) *redisserver.Server {
	t.Helper()
	s := redisserver.StartT(t, redisserver.Options{Version: version})
	user := []any{"ACL", "SETUSER", "gate", "on", ">secret"}
	for _, rule := range strings.Fields(redisclient.ACLRules) {
		user = append(user, rule)
	}
	mustDo(t, s, user)
	return s
}

// links are the ways to a server with a login: over connections for each round trip, as Envoy's tunnel makes them, and
// over one that the gateway has tried to log in, as Higress does.
var links = map[string]func(*testing.T, *redisserver.Server, redisclient.Login) redisclient.Transport{
	"tunnel": func(_ *testing.T, s *redisserver.Server, l redisclient.Login) redisclient.Transport {
		return redisclient.NewPipeline(l, time.Second, tunnel(s.Addr()))
	},
	"connection": func(t *testing.T, s *redisserver.Server, l redisclient.Login) redisclient.Transport {
		w := dial(t, s)
		w.roundTrip(redisclient.AppendCommand(nil, "AUTH", l.Username, l.Password))
		w.roundTrip(redisclient.AppendCommand(nil, "SELECT", fmt.Sprint(l.Database)))
		return redisclient.NewChecked(w, l)
	},
}

// With a login that Redis refuses nothing is carried out as its default user, or in another database, though that user
// may do everything; the reason is `auth`, for requests and for heartbeats; and all is well once Redis accepts it.
func TestRefusedLoginRunsNothing(t *testing.T) {
	for _, version := range redisserver.Versions() {
		for name, link := range links {
			for mistake, login := range map[string]redisclient.Login{
				"password": {Username: "gate", Password: "wrong"},
				"user":     {Username: "nobody", Password: "secret"},
				"database": {Username: "gate", Password: "secret", Database: 99},
			} {
				t.Run(version+" "+name+" "+mistake, func(t *testing.T) {
					server := gated(t, version)
					s := newStore(link(t, server, login), 1, time.Second)
					for i := range 20 {
						now := time.Duration(i) * time.Second
						r := reserve(s, now, lb.LeaseID(i+1))
						cause := redisclient.Cause(r.err)
						if cause != "auth" && (cause != "breaker_open" || i == 0) {
							t.Fatalf("request %d: %s", i, r)
						}
						if err := s.Heartbeat(now); err != nil || redisclient.Cause(s.HeartbeatErr()) != "auth" {
							t.Fatalf("heartbeat %d: %v %v", i, err, s.HeartbeatErr())
						}
					}
					wantNothingRun(t, server)
					mustDo(t, server, []any{"ACL", "SETUSER", "gate", ">wrong"}, []any{
						"ACL", "SETUSER", "nobody", "on",
						">secret", "~*", "+@all",
					})
					if mistake == "database" {
						return
					}
					if err := s.Heartbeat(time.Minute); err != nil || s.HeartbeatErr() != nil {
						t.Fatalf("after Redis accepts the login: %v %v", err, s.HeartbeatErr())
					}
					if r := reserve(s, time.Minute, 100); r.err != nil {
						t.Errorf("then a reservation: %s", r)
					}
				})
			}
		}
	}
}

// wantNothingRun fails the test if a script was carried out, or anything written.
func wantNothingRun(t *testing.T, s *redisserver.Server) {
	t.Helper()
	stats, err := s.CommandStats()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"evalsha", "script", "script|load", "role"} {
		if n := stats[name].Calls; n > 0 {
			t.Errorf("%d times %s was carried out with a refused login", n, name)
		}
	}
	for _, db := range []int{0, 3} {
		c, err := s.Dial()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, errSelect := c.Do("SELECT", db)
		if n, err := c.Do("DBSIZE"); errors.Join(err, errSelect) != nil || n.Integer() != 0 {
			t.Errorf("database %d has %v keys (%v)", db, n, err)
		}
	}
}

// A password that Redis does not accept any more is noticed with the next round trip, or within a second on a
// connection that is logged in; nothing is sent after that.
func TestPasswordIsChanged(t *testing.T) {
	for name, link := range links {
		t.Run(name, func(t *testing.T) {
			server := gated(t, "")
			tr := link(t, server, redisclient.Login{Username: "gate", Password: "secret"})
			s := newStore(tr, 1, time.Second)
			if r := reserve(s, 0, 1); r.err != nil {
				t.Fatalf("before: %s", r)
			}
			mustDo(t, server, []any{"ACL", "SETUSER", "gate", "resetpass", ">other"})
			if c, ok := tr.(*redisclient.Checked); ok {
				c.Check(time.Second)
			}
			for i := range 10 {
				if err := s.Heartbeat(time.Second); err != nil || redisclient.Cause(s.HeartbeatErr()) != "auth" {
					t.Fatalf("heartbeat %d: %v %v", i, err, s.HeartbeatErr())
				}
				if i == 0 {
					mustDo(t, server, []any{"FLUSHALL"}, []any{"CONFIG", "RESETSTAT"})
				}
			}
			wantNothingRun(t, server)
		})
	}
}

// What was denied is named where Redis does so, without anything else of its text.
func TestDeniedCommandIsNamed(t *testing.T) {
	for _, version := range redisserver.Versions() {
		for taken, want := range map[string]string{
			"-evalsha": "'evalsha'", "-script": "'script", "-hmget": "'hmget'", "resetkeys": "",
		} {
			if taken == "-hmget" && strings.HasPrefix(version, "redis") { // what a script may not do has no name there
				want = ""
			}
			t.Run(version+" "+taken, func(t *testing.T) {
				server := gated(t, version)
				mustDo(t, server, []any{"ACL", "SETUSER", "gate", taken})
				login := redisclient.Login{Username: "gate", Password: "secret"}
				r := reserve(newStore(links["tunnel"](t, server, login), 1, time.Second), 0, 1)
				got := redisclient.Detail(r.err)
				if redisclient.Cause(r.err) != "denied" || !strings.HasPrefix(got, want) {
					t.Errorf("%s, %q", r, got)
				}
				if strings.Contains(got, "gate") {
					t.Errorf("the detail is %q", got)
				}
			})
		}
	}
	for text, want := range map[string]string{
		"this user has no permissions to run the 'evalsha' command or its subcommand":   "'evalsha'",
		"User gate has no permissions to run the 'script|load' command":                 "'script|load'",
		"User it's has no permissions to run the 'get' command":                         "'get'",
		"No permissions to access a key":                                                "",
		"User u has no permissions to run the 'a-command-with-too-long-a-name' command": "",
	} {
		m := &manualTransport{}
		r := reserve(newManualStore(m, newMemory()), 0, 1)
		for i := 0; i < len(m.done) && i < 20; i++ {
			m.answer(0, i, "-NOPERM "+text+"\r\n")
		}
		if got := redisclient.Detail(r.err); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
