package config

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// StoreKind is where work in flight is counted.
type StoreKind uint8

// The kinds of stores.
const (
	storeUnset StoreKind = iota // as long as a configuration is being parsed
	StoreLocal                  // in the memory of one gateway
	StoreRedis                  // over all gateways that use one Redis
)

var storeNames = []string{storeUnset: "", StoreLocal: "local", StoreRedis: "redis"}

// String returns the kind's name in the configuration.
func (k StoreKind) String() string { return storeNames[k] }

// UnmarshalText sets the kind to the one with the name.
func (k *StoreKind) UnmarshalText(name []byte) error {
	i := slices.Index(storeNames, string(name))
	if i < 0 {
		return errors.New("config: unknown store " + string(name))
	}
	*k = StoreKind(i)
	return nil
}

// Redis is where Redis is, and how to log in.
type Redis struct {
	ServiceFQDN string        // Higress: name of the service, with a suffix like .static or .dns
	ServicePort int           // Higress: not 0 once checked
	Cluster     string        // stock Envoy: name of the cluster that leads to Redis
	Username    string        // "" for the default user
	Password    string        // "" for none
	Timeout     time.Duration // Higress: of the connection
	Database    int
	Scope       string // name under which load is counted together, in place of the cluster's; "" for the cluster's
}

// HigressCluster returns the name that Higress gives to the service's cluster.
func (r Redis) HigressCluster() string {
	return "outbound|" + strconv.Itoa(r.ServicePort) + "||" + r.ServiceFQDN
}

// String names the server without its credentials, so that a Config printed by mistake shows no password.
func (r Redis) String() string {
	scope := ""
	if r.Scope != "" {
		scope = " scope " + strconv.Quote(r.Scope)
	}
	switch {
	case r.Cluster != "":
		return "redis cluster " + r.Cluster + " database " + strconv.Itoa(r.Database) + scope
	case r.ServiceFQDN != "":
		return "redis service " + r.ServiceFQDN + ":" + strconv.Itoa(r.ServicePort) + " database " +
			strconv.Itoa(r.Database) + scope
	}
	return "none"
}

// GoString is String, for the same reason.
func (r Redis) GoString() string { return r.String() }

// UsesRedis reports whether work in flight is counted in Redis.
func (c *Config) UsesRedis() bool { return c.Enabled && c.Store == StoreRedis }

// The keys that name a Redis, and those that mean something only with one.
const (
	keyStore   = "lb_config.store"
	keyService = "lb_config.serviceFQDN"
	keyTunnel  = "lb_config.envoy.redis_cluster"
	keyPort    = "lb_config.servicePort"
	keyTimeout = "lb_config.timeout"

	keyPassword = "lb_config.password"
)

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

// idle warns of the keys that are written without effect.
//
//go:noinline
func (pt *part) idle(names []string, why string) {
	for _, name := range names {
		if pt.written[name] {
			pt.warn(pt.prefix+name, why)
		}
	}
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
