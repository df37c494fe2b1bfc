package doctest

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/redisclient"
)

// TestConfigurationsReadmeRedis runs the commands of envoy-config/README.md for counts in Redis, against a server that
// has the shipped users, with a password of their own in both files.
func TestConfigurationsReadmeRedis(t *testing.T) {
	needs(t, "curl", "setpriv")
	p := stage(t)
	server := redisserver.StartT(t, redisserver.Options{})
	// On a busy machine Redis may answer none within the time that is shipped.
	replace(t, filepath.Join(p.dir, "envoy-config/warmgate-redis.yaml"), `"reserve_timeout": "20ms"`,
		`"reserve_timeout": "10s"`)
	replace(t, filepath.Join(p.dir, "envoy-config/warmgate-redis.yaml"), "change-me", harness.OwnSecret)
	replace(t, filepath.Join(p.dir, "envoy-config/redis-tunnel.yaml"), "port_value: 6379",
		"port_value: "+strconv.Itoa(server.Port()))
	for line := range strings.Lines(harness.Own(read(t, "envoy-config/redis-user.acl"))) {
		user := []any{"ACL", "SETUSER"}
		for _, rule := range strings.Fields(line)[1:] {
			user = append(user, rule)
		}
		if _, err := server.Do(user...); err != nil {
			t.Fatal(err)
		}
	}
	var commands string
	for _, block := range shell(t, "envoy-config/README.md") {
		if strings.Contains(block, "redis-tunnel.yaml") {
			commands = block
		}
	}
	if !strings.HasSuffix(commands, "--concurrency 2\n") {
		t.Fatalf("the document has changed: %q", commands)
	}
	play(t, p, prelude+"cd envoy-config\n"+strings.TrimSpace(commands)+" &\n"+choosing+
		"until admin stats/prometheus | grep -q '^warmgate_redis_up{} 1'; do command sleep 0.2; done\n"+
		choosing+"kill $!\n") // the first request may have come before Redis had answered
	k := redisclient.KeysOf("llm")
	if n, err := server.Do("EXISTS", k.Table, k.Rows); err != nil || n.Integer() != 2 {
		t.Errorf("Redis has %v of 2 keys: %v", n, err)
	}
}
