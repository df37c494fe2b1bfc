package config

import "strconv"

// The values of Config.Policy.
const (
	globalLeastRequest = "global_least_request"
	// PrefixCache is the policy that reads prompts.
	PrefixCache = "prefix_cache"
)

const (
	keyUnit   = "lb_config.unit"
	unitToken = "tokens"
	keyTTL    = "lb_config.redisKeyTTL"
)

var prefixKeys = []string{
	"lb_config.prefix.block_bytes", "lb_config.prefix.credit", "lb_config.prefix.table_bytes", "lb_config.prefix.redis_bytes",
	"lb_config.prefix.cache_tokens", "lb_config.prefix.tenant_header",
	"lb_config.prefix.secret", keyTTL,
}

// leastTTL is the least number of seconds that prompts can be kept for: what is in use is noted again only every
// half minute.
const leastTTL = 64

// checkPrefix settles what prefix_cache needs.
func (pt *part) checkPrefix() {
	if pt.Policy != PrefixCache {
		pt.idle(prefixKeys, "has no effect without lb_policy prefix_cache")
		return
	}
	if pt.written[keyUnit] && pt.Unit != unitToken {
		pt.bad(pt.prefix+keyUnit, `got "`+pt.Unit+`", want "tokens" or nothing: prefix_cache weighs cached tokens against tokens in flight`)
	}
	pt.Unit = unitToken
	if ttl := pt.Prefix.TTLSeconds; ttl > 0 && ttl < leastTTL {
		pt.warn(pt.prefix+keyTTL, "got "+strconv.Itoa(ttl)+", taken as "+strconv.Itoa(leastTTL)+
			": what is in use is noted again only every half minute")
		pt.Prefix.TTLSeconds = leastTTL
	}
	if pt.Prefix.TTLSeconds == 0 {
		pt.Prefix.TTLSeconds = pt.base.Prefix.TTLSeconds
	}
}

// String shows no secret, so that a Config printed by mistake shows none.
func (p Prefix) String() string {
	return strconv.Itoa(p.BlockBytes) + " bytes a block, credit " + strconv.FormatFloat(p.Credit, 'g', -1, 64) + ", kept for " +
		strconv.Itoa(p.TTLSeconds) + " s in " + strconv.Itoa(p.TableBytes) + " bytes, in Redis in " + strconv.Itoa(p.RedisBytes) + ", tenant header " + strconv.Quote(p.TenantHeader)
}

// GoString is String, for the same reason.
func (p Prefix) GoString() string { return p.String() }
