package doctest

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// limits are those that documents name, each with the constant behind it.
var limits = []struct{ doc, text, file, constant string }{
	{"docs/features.md", "At most 256 clusters", "lb/memstore/keys.go", `tableSlots += 256\b`},
	{"docs/features_ZH.md", "最多 256 个集群", "lb/memstore/keys.go", `tableSlots += 256\b`},
	{"docs/features.md", "4096 endpoints in a cluster", "lb/memstore/table.go", `maxRows += 4096\b`},
	{"docs/features_ZH.md", "最多 4096 个端点", "lb/memstore/table.go", `maxRows += 4096\b`},
	{"docs/features.md", "At most 64 endpoints of a cluster have gauges", "plugin/stats/cluster.go", `maxGauges += 64\b`},
	{"docs/features_ZH.md", "最多有 64 个端点拥有自己的 gauge", "plugin/stats/cluster.go", `maxGauges += 64\b`},
	{"docs/metrics-reference.md", "at most 8192 over its life", "plugin/stats/stats.go", `maxNames += 8192\b`},
	{"docs/metrics-reference.md", "the first 32, and 32 more", "plugin/stats/requests.go", `moreModels = 32, 32\b`},
	{"docs/metrics-reference_ZH.md", "前 32 个，以及另外 32 个", "plugin/stats/requests.go", `moreModels = 32, 32\b`},
	{"docs/metrics-reference.md", "the first 64, and 64 more", "plugin/stats/costs.go", `moreTenants = 64, 64\b`},
	{"docs/metrics-reference_ZH.md", "前 64 个，以及另外 64 个", "plugin/stats/costs.go", `moreTenants = 64, 64\b`},
	{"docs/metrics-reference.md", "192 combinations", "plugin/stats/requests.go", `maxCombinations = 192\b`},
	{"docs/metrics-reference_ZH.md", "192 种", "plugin/stats/requests.go", `maxCombinations = 192\b`},
	{"docs/metrics-reference.md", "1024 pairs", "plugin/stats/costs.go", `maxPayers = 1024\b`},
	{"docs/metrics-reference.md", "1024 in all", "plugin/stats/endpoints.go", `maxEndpoints = 1024\b`},
	{"docs/metrics-reference.md", "64 of the latest 4096 requests", "internal/topnames/topnames.go", `Much = 64\b[\s\S]*window = 4096\b`},
	{"docs/metrics-reference_ZH.md", "4096 个请求中占 64 个", "internal/topnames/topnames.go", `Much = 64\b[\s\S]*window = 4096\b`},
	{"docs/metrics-reference.md", "longer than 128 bytes", "internal/topnames/topnames.go", `MaxLength = 128\b`},
	{"docs/metrics-reference_ZH.md", "长于 128 字节", "internal/topnames/topnames.go", `MaxLength = 128\b`},
	{"docs/metrics-reference.md", "older than 10 seconds", "plugin/endpoints/admin.go", `staleAfter += 10 \* time.Second`},
	{"docs/features.md", "returned within 6 seconds", "plugin/stores/stores.go", `LeaseTTL += 5 \* time.Second`},
	{"docs/features_ZH.md", "6 秒内收回", "plugin/stores/stores.go", `LeaseTTL += 5 \* time.Second`},
	{"docs/higress.md", "lists of 64 KiB and more", "plugin/endpoints/higress.go", `bigHostList += 64 << 10`},
	{"docs/higress.md", "every 250 ms", "plugin/endpoints/higress.go", `hostListAge += 250 \* time.Millisecond`},
	{"docs/design/redis-store.md", "at most 160 leases of dead owners", "redisclient/lua/heartbeat.lua", `BATCH, REPORT, OWNER = 160, 320\b`},
	{"docs/design/redis-store.md", "about 320 of the owner's own", "redisclient/lua/heartbeat.lua", `BATCH, REPORT, OWNER = 160, 320\b`},
	{"docs/design/redis-store.md", "TTL of 100 ms", "redisclient/lua/heartbeat.lua", `'NX', 'PX', 100\b`},
	{"docs/design/redis-store.md", "50 leases at a time", "redisclient/ledger.go", `leasesPerCommand = 50\b`},
	{"docs/design/redis-store.md", "more than 128 endpoints", "redisclient/candidates.go", `endpointsPerCommand = 128\b`},
	{"docs/design/redis-wait.md", "by 4 ms", "plugin/vm/ticks.go", `maxLate = 4 \* time.Millisecond`},
	{"docs/overload.md", "yet gets 16 requests", "lb/push/limits.go", `firstLimit = 16\b`},
	{"docs/overload_ZH.md", "先得到 16 个请求", "lb/push/limits.go", `firstLimit = 16\b`},
	{"docs/overload.md", "checked every five minutes", "lb/push/search.go", `checkEvery = 5 \* time.Minute`},
	{"docs/overload_ZH.md", "每五分钟检验一次", "lb/push/search.go", `checkEvery = 5 \* time.Minute`},
	{"docs/overload.md", "from a half to an eighth", "lb/push/search.go", `= 1.0 / 2, 1.0 / 4, 1.0 / 8\b`},
	{"docs/overload_ZH.md", "从一半缩小到八分之一", "lb/push/search.go", `= 1.0 / 2, 1.0 / 4, 1.0 / 8\b`},
	{"docs/overload.md", "more than three times that", "lb/queue/turn.go", `maxPassed = 3\b`},
	{"docs/overload_ZH.md", "不超过该数的三倍", "lb/queue/turn.go", `maxPassed = 3\b`},
	{"docs/overload.md", "5 s or three times an answer", "lb/push/search.go", `= 5 \* time.Second, 8, 3\b`},
	{"docs/overload_ZH.md", "持续 5 秒或三个应答的时间", "lb/push/search.go", `= 5 \* time.Second, 8, 3\b`},
	{"docs/overload.md", "three in ten seconds", "plugin/clusters/retrybudget.go", `RetrySeconds = 10\b[\s\S]*FreeRetries = 3\b`},
	{"docs/overload_ZH.md", "每十秒三个", "plugin/clusters/retrybudget.go", `RetrySeconds = 10\b[\s\S]*FreeRetries = 3\b`},
	{"docs/overload.md", "less than 30 s ago", "plugin/clusters/retrybudget.go", `endedMemory += 30 \* time.Second`},
	{"docs/overload_ZH.md", "最近 30 秒", "plugin/clusters/retrybudget.go", `endedMemory += 30 \* time.Second`},
	{"docs/overload.md", "up to 25 ms later", "lb/wait.go", `PollPeriod = 25 \* time.Millisecond`},
	{"docs/overload_ZH.md", "最多晚 25 ms", "lb/wait.go", `PollPeriod = 25 \* time.Millisecond`},
	{"docs/overload.md", "free within 6 s", "plugin/stores/stores.go", `LeaseTTL += 5 \* time.Second`},
	{"docs/overload_ZH.md", "在 6 秒内空出", "plugin/stores/stores.go", `LeaseTTL += 5 \* time.Second`},
	{"docs/design/queue.md", "72 bytes a ticket", "lb/queue/ticket.go", `recordSize, listAt = 72\b`},
	{"redisclient/lua/queue_turn.lua", "passed >= 3 * skip", "lb/queue/turn.go", `maxPassed = 3\b`},
	{"redisclient/lua/queue_grant.lua", "60000 * q.places / q.time, 4 *", "lb/queue/pace.go", `= 60_000, 4\b`},
	{"redisclient/lua/enqueue.lua", "math.max(inflight, 8)", "lb/queue/pace.go", `MinPace = 8\b`},
	{"redisclient/lua/queue_grant.lua", "- c.odd) / 16", "lb/queue/aging.go", `oddMemory = 16\b`},
	{"redisclient/lua/poll.lua", "up to 16", "plugin/config/queue.go", `maxClasses   = 16\b`},
	{"redisclient/lua/queue_turn.lua", "tokens / 9 /", "lb/queue/aging.go", `perAged = 9\b`},
	{"docs/overload.md", "a tenth of what is granted", "lb/queue/aging.go", `perAged = 9\b`},
	{"docs/overload_ZH.md", "所授予总量的十分之一", "lb/queue/aging.go", `perAged = 9\b`},
	{"CONTRIBUTING.md", "under 6 MiB", "build/wasm.sh", `6 \* 1024 \* 1024`},
	{"docs/design/prefix-index.md", "63 entries", "lb/prefixindex/page.go", `MaxEntries  = 63\b`},
	{"docs/design/prefix-credit.md", "4 × (TTFT / duration", "lb/cache/answer_stats.go", `growthPerWaiting = 4\b`},
	{"docs/design/prefix-credit.md", "× f, 16)", "lb/choose.go", `maxCreditGain = 16\b`},
	{"docs/design/cache-learning.md", "multiplies it by 0.8", "lb/cache/tracker.go", `ttlCut, ttlGain = 0.8, 1.025\b`},
	{"docs/design/health.md", "log(0.9 / s) / log(0.9 / 0.02)", "lb/health/failure_weight.go", `failingShare = 0.9\b`},
	{"docs/design/health.md", "0 if s ≥ 0.5", "lb/health/failure_weight.go", `uninformativeShare = 0.5\b`},
	{"docs/design/health.md", "by 1/32 otherwise", "lb/health/failure_weight.go", `repeatWeight   = 1.0 / 32\b`},
	{"docs/design/refusals.md", "deviation − 1.5 − 0.85 ×", "lb/queue/expected.go", `passedDeviations = 1.5, 0.85\b`},
	{"docs/design/refusals.md", "latest 400 grants", "lb/queue/shares.go", `maxChances = 32, 400\b`},
	{"docs/design/queue.md", "4 at a tick", "plugin/waiters/waiters.go", `maxReplans = 4\b`},
	{"docs/design/push-limits.md", "0.85 of the KV cache", "lb/push/samples.go", `pushKVUse = 0.85\b`},
	{"docs/design/push-limits.md", "each of 128 endpoints", "lb/push/exchange.go", `maxSharedLimits = 128\b`},
	{"docs/design/regions.md", "512 senders", "lb/region/replays.go", `maxSenders = 512\b`},
	{"docs/design/clusters.md", "request in ten of a worker", "lb/policy/cluster_costs.go", `retryShare = 10\b`},
	{"docs/design/work.md", "room for 256 names", "plugin/learned/models.go", `maxModels = 256\b`},
	{"docs/design/embedded-store.md", "256 slots", "lb/memstore/keys.go", `tableSlots = 256\b`},
	{"CONTRIBUTING.md", "at most 400 lines, functions at most 60", "build/check/lengths.go", `400[\s\S]*60`},
	{"docs/metrics-reference_ZH.md", "最多定义 8192 个", "plugin/stats/stats.go", `maxNames += 8192\b`},
	{"docs/metrics-reference_ZH.md", "早于 10 秒", "plugin/endpoints/admin.go", `staleAfter += 10 \* time.Second`},
	{"docs/higress_ZH.md", "64 KiB 及以上的列表", "plugin/endpoints/higress.go", `bigHostList += 64 << 10`},
	{"docs/higress_ZH.md", "最多每 250 ms", "plugin/endpoints/higress.go", `hostListAge += 250 \* time.Millisecond`},
}

// TestLimits compares the limits in the documents with the constants behind them.
func TestLimits(t *testing.T) {
	for _, c := range limits {
		says(t, c.doc, c.text)
		if !regexp.MustCompile(c.constant).MatchString(read(t, c.file)) {
			t.Errorf("%s has %q, but %s has no %s", c.doc, c.text, c.file, c.constant)
		}
	}
}

// says checks that a document has a text, however its lines are broken.
func says(t *testing.T, doc, text string) {
	t.Helper()
	if !strings.Contains(strings.Join(strings.Fields(open(t, doc).text), " "), text) {
		t.Errorf("%s lacks %q", doc, text)
	}
}

// TestDrainTime compares what the documents say of the drain time on Envoy Gateway with the file that sets it.
func TestDrainTime(t *testing.T) {
	const file = "deploy/envoy-gateway/gateway.yaml"
	m := regexp.MustCompile(`drainTimeout: (\d+)s`).FindStringSubmatch(read(t, file))
	if m == nil {
		t.Fatalf("%s sets no drain time in seconds", file)
	}
	seconds, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	for doc, text := range map[string]string{
		"README.md":             fmt.Sprintf("within %d minutes", seconds/60),
		"README_ZH.md":          fmt.Sprintf("在 %d 分钟内", seconds/60),
		"docs/upgrade.md":       m[1] + " s as shipped",
		"docs/envoy-gateway.md": "That is " + m[1] + " s in gateway.yaml",
	} {
		says(t, doc, text)
	}
}
