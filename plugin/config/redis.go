package config

import (
	"strconv"
	"strings"

	"github.com/warmgate/warmgate/lb"
)

// UsesRedis reports whether work in flight is counted in Redis.
func (c *Config) UsesRedis() bool { return c.Enabled && c.Store == StoreRedis }

var redisKeys = []string{
	keyService, keyTunnel, keyPort, "lb_config.username", keyPassword, keyTimeout, "lb_config.database",
	"lb_config.reserve_timeout", "lb_config.redis_scope",
}

// checkStore completes where work in flight is counted.
func (pt *part) checkStore() {
	named, place := pt.Redis.ServiceFQDN != "", keyService
	if pt.host == Envoy {
		named, place = pt.Redis.Cluster != "", keyTunnel
	}
	if pt.Store == storeUnset {
		pt.Store = StoreLocal
		if named {
			pt.Store = StoreRedis
		} else if pt.host == Envoy && pt.Redis.ServiceFQDN != "" {
			pt.badKey(keyService, "names a service of Higress; want "+keyTunnel+
				" with the name of a cluster that leads to Redis, or "+keyStore+` "local"`)
			return
		}
	}
	if lb.IsOfTenants(pt.Redis.Scope) {
		pt.badKey("lb_config.redis_scope", "begins with "+lb.TenantsScope+
			", which is where tenants are counted; want another name")
	}
	switch {
	case pt.Store == StoreLocal:
		pt.idle(redisKeys, "has no effect with store local")
	case !named:
		pt.badKey(place, "missing, want the name of the "+noun(pt.host)+` for store "redis"`)
	case pt.host == Envoy:
		pt.idle([]string{keyService, keyPort, keyTimeout}, "has no effect on stock Envoy: "+keyTunnel+" leads to Redis")
	default:
		pt.higressDefaults()
	}
}

func noun(h Host) string {
	if h == Envoy {
		return "cluster that leads to Redis"
	}
	return "Redis service"
}

// higressDefaults sets what Higress's own plugins use in place of 0.
func (pt *part) higressDefaults() {
	if pt.Redis.Timeout == 0 {
		pt.Redis.Timeout = pt.base.Redis.Timeout
	}
	if pt.Redis.ServicePort == 0 {
		pt.Redis.ServicePort = 6379
		if strings.HasSuffix(pt.Redis.ServiceFQDN, ".static") {
			pt.Redis.ServicePort = 80
		}
	}
}

// login returns how a part logs in to a Redis, and the server for which there can be one login only: with two, the
// later one would apply to both parts. Higress keeps one set of settings for a service. Stock Envoy keeps none, but a
// user has one password.
func login(h Host, r Redis) (where, how Redis) {
	if h == Envoy {
		r.Timeout = 0
		return Redis{Cluster: r.Cluster, Username: r.Username, Database: r.Database}, r
	}
	return Redis{ServiceFQDN: r.ServiceFQDN, ServicePort: r.ServicePort}, r
}

// badLogin reports a part that logs in to a Redis in another way than an earlier one.
func (p *parser) badLogin(prefix string, r Redis, what string) {
	place, name := keyService, r.ServiceFQDN
	why := "Higress keeps one " + what + " for a Redis service; a second name for it in McpBridge can have its own"
	if p.host == Envoy {
		place, name, why = keyTunnel, r.Cluster, "a user has one "+what
	}
	p.bad(prefix+place, "got "+name+" with another "+what+" than elsewhere, want the same: "+why)
}

// differs names what two uses of one service differ in.
func differs(a, b Redis) string {
	switch {
	case a.Username != b.Username:
		return "username"
	case a.Password != b.Password:
		return "password"
	case a.Database != b.Database:
		return "database"
	case a.Timeout != b.Timeout:
		return "timeout"
	}
	return ""
}

// serviceName decodes the name of a service of Higress. An invalid one is not repeated: it may be a URL that contains a
// password.
func serviceName(p *parser, c *Config, at string, v value) {
	name := v.string()
	if !v.single() || len(name) > 253 || strings.Trim(name, nameLetters) != "" {
		p.bad(at, "got "+v.kind.String()+" that is no name of a service, want letters, digits, dots and dashes only")
		return
	}
	if v.kind != kindString {
		p.takenAs(at, v, strconv.Quote(name))
	}
	c.Redis.ServiceFQDN = strings.Clone(name)
}
