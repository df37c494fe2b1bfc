package streamtest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/higresshost"
	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/redisclient"
)

// startHigressUser returns a gateway with a Redis that has the shipped user, beside a default user that may do
// everything, with the given members in lb_config.
func startHigressUser(t *testing.T, members string) *higress {
	t.Helper()
	server := redisserver.StartT(t, redisserver.Options{})
	user := []any{"ACL", "SETUSER", "warmgate", "on", ">our-own-secret"}
	for _, rule := range strings.Fields(redisclient.ACLRules) {
		user = append(user, rule)
	}
	if _, err := server.Do(user...); err != nil {
		t.Fatal(err)
	}
	h := &higress{t: t, redis: dialRedis(t, server), list: make([]streamtest.Endpoint, 2)}
	if err := h.Configure(`{"lb_policy":"global_least_request","lb_config":{"serviceFQDN":"redis.static",` + members +
		`}}`); err != nil {
		t.Fatal(err)
	}
	return h
}

// requests serves so many, each second one.
func (h *higress) requests(n int) {
	for range n {
		s := h.Open(streamtest.Request{})
		h.Advance(10 * time.Millisecond)
		s.Finish()
		h.Advance(990 * time.Millisecond)
	}
}

// ran returns how many scripts Redis has carried out.
func (h *higress) ran() int64 {
	stats, err := h.redis.server.CommandStats()
	if err != nil {
		h.t.Fatal(err)
	}
	return stats["evalsha"].Calls + stats["script|load"].Calls
}

// Higress connects and logs in without telling a plugin that Redis has refused it, and goes on as the default user, or
// in database 0. Nothing is sent there all the same, and the log and the statistics say so.
func TestHigressRedisRefusesTheLogin(t *testing.T) {
	for mistake, c := range map[string]struct{ members, log string }{
		"password":                       {`"username":"warmgate","password":"wrong"`, "AUTH was answered with WRONGPASS"},
		"user":                           {`"username":"nobody","password":"our-own-secret"`, "AUTH was answered with WRONGPASS"},
		"database":                       {`"username":"warmgate","password":"our-own-secret","database":99`, "SELECT was answered with ERR"},
		"a password that nobody has set": {`"password":"our-own-secret"`, "AUTH was answered with ERR"},
	} {
		t.Run(mistake, func(t *testing.T) {
			h := startHigressUser(t, c.members)
			h.requests(10)
			if n := h.ran(); n != 0 {
				t.Errorf("%d scripts were carried out", n)
			}
			if h.Gauge("warmgate_redis_up") != 0 || h.Counter("warmgate_redis_failures_total;cause=auth") < 8 ||
				h.Counter("warmgate_store_fallbacks_total;cause=auth") == 0 {
				t.Errorf("up %d, failures %d, fallbacks %d", h.Gauge("warmgate_redis_up"),
					h.Counter("warmgate_redis_failures_total;cause=auth"),
					h.Counter("warmgate_store_fallbacks_total;cause=auth"))
			}
			if !h.gw.LogContains("unavailable (auth: "+c.log+")") || h.gw.LogContains("using shared counts") {
				t.Errorf("the log is %v", h.gw.Logs(higresshost.LogWarn))
			}
		})
	}
}

// Every connection is looked at: one that replaces another after a restart at which Redis has lost its users, one that
// another plugin has logged in, and one whose password Redis has changed. Once Redis accepts the login all is well.
func TestHigressRedisLoginOfEachConnection(t *testing.T) {
	const right = `"username":"warmgate","password":"our-own-secret"`
	for name, lose := range map[string]func(h *higress){
		"users lost at a restart": func(h *higress) {
			h.redis.must("ACL", "DELUSER", "warmgate")
			h.redis.connect()
		},
		"password changed": func(h *higress) {
			h.redis.must("ACL", "SETUSER", "warmgate", "resetpass", ">other")
			h.redis.connect()
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := startHigressUser(t, right)
			h.requests(3)
			if h.Gauge("warmgate_redis_up") != 1 || h.ran() == 0 {
				t.Fatal("Redis is not used")
			}
			lose(h)
			h.Advance(2 * time.Second)
			ran := h.ran()
			h.requests(5)
			if n := h.ran() - ran; n != 0 {
				t.Errorf("%d scripts were carried out", n)
			}
			if h.Gauge("warmgate_redis_up") != 0 ||
				!h.gw.LogContains("unavailable (auth: AUTH was answered with WRONGPASS)") {
				t.Errorf("up %d, the log is %v", h.Gauge("warmgate_redis_up"), h.gw.Logs(higresshost.LogWarn))
			}
			h.redis.must("ACL", "SETUSER", "warmgate", "on", ">our-own-secret", "~*", "+@all")
			h.requests(3)
			if h.Gauge("warmgate_redis_up") != 1 || h.ran() == ran {
				t.Errorf("Redis accepts the login, up %d, %d scripts", h.Gauge("warmgate_redis_up"), h.ran()-ran)
			}
		})
	}
	t.Run("another plugin's login", func(t *testing.T) {
		h := startHigressUser(t, right)
		h.requests(3)
		h.redis.login = higresshost.RedisInit{}
		h.redis.connect() // as default, with all rights
		h.Advance(1100 * time.Millisecond)
		who := string(h.redis.execute(redisclient.AppendCommand(nil, "ACL", "WHOAMI")))
		if !strings.Contains(who, "warmgate") {
			t.Errorf("a second later the connection is that of %q", who)
		}
	})
}
