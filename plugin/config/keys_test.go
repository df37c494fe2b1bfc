package config

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/engines"
	"github.com/warmgate/warmgate/lb/push"
	"github.com/warmgate/warmgate/lb/region"
)

// keyCases has, for every key, a value that differs from the default with its effect on a Config, and values that are
// refused.
var keyCases = map[string]keyCase{
	"enabled":   {`false`, func(c *Config) { c.Enabled = false }, []string{`1`, `"false"`, `null`}},
	"lb_type":   {`"endpoint"`, nil, []string{`"clusters"`, `"Endpoint"`, `1`}},
	"lb_policy": {`"global_least_request"`, nil, []string{`"cluster_metrics"`, `""`}},
	keyClusters: {`["a"]`, nil, []string{`[]`, `7`, `[1]`, `""`, `["a b"]`, `["a","a"]`, `{"a":1}`}},
	keyClusterHeader: {
		`"X-Target"`, nil, []string{`1`, `":path"`, `"host"`, `"x-envoy-original-dst-host"`, `"x-warmgate-session"`},
	},
	keyHashClusters: {
		`[{"cluster":"a","weight":100}]`, nil,
		[]string{`[]`, `"a"`, `[{"cluster":"a","weight":99}]`, `[{"cluster":"a"}]`, `[{"cluster":"a","weight":0}]`},
	},
	keyFirst:  {`{"a":"b"}`, nil, []string{`[]`, `{"a":1}`, `{"a":""}`, `"a"`}},
	keyNested: {`{"lb_policy":"global_least_request"}`, nil, []string{`[]`, `"global_least_request"`, `null`}},

	"lb_config.mode":                       {`"LeastBusy"`, nil, []string{`"least_busy"`, `""`, `1`}},
	"lb_config.queue_size":                 {`"50"`, nil, []string{`[]`, `{}`}},
	"lb_config.ewma_beta":                  {`"0.9"`, nil, []string{`1.5`, `-0.1`, `[]`}},
	"lb_config.p2c_choices":                {`3`, nil, []string{`[]`, `{}`}},
	"lb_config.ttft_weight":                {`0`, nil, []string{`-1`, `{}`}},
	"lb_config.total_latency_weight":       {`0`, nil, []string{`-1`, `{}`}},
	"lb_config.error_penalty":              {`"5"`, nil, []string{`-1`, `[]`}},
	"lb_config.failure_cooldown_ms":        {`0`, nil, []string{`-1`, `[]`}},
	"lb_config.metrics_missing_policy":     {`"random"`, nil, []string{`[]`, `{}`}},
	"lb_config.global_inflight_enabled":    {`true`, nil, []string{`[]`, `{}`}},
	"lb_config.global_inflight_key_prefix": {`"p"`, nil, []string{`[]`, `{}`}},
	"lb_config.global_inflight_timeout":    {`0`, nil, []string{`-1`, `[]`}},
	"lb_config.global_inflight_key_ttl":    {`0`, nil, []string{`-1`, `[]`}},

	"lb_config.unit": {`"tokens"`, func(c *Config) { c.Unit = lb.Tokens }, []string{`"bytes"`, `1`}},
	"lb_config.max_inflight": {
		`7`, func(c *Config) { c.MaxInflight = 7 }, []string{`-1`, `1.5`, `1e7`, `"7"`},
	},
	"lb_config.maxRequestCount": {
		`7`, func(c *Config) { c.MaxInflight, c.maxRequestCount = 7, 7 }, []string{`[7]`, `{}`},
	},
	keyMaxInflightTokens: {
		`9000`, func(c *Config) { c.Unit, c.MaxInflightTokens = lb.Tokens, 9000 }, []string{`-1`, `0.5`, `1e10`, `"9"`},
	},
	keyPush:                     {`"pending"`, func(c *Config) { c.Push = push.Pending; c.settleMetricsID(Higress) }, []string{`"Blind"`, `true`, `"outstanding"`}},
	keyPushAhead:                {`2`, func(c *Config) { c.PushAhead = 2 }, []string{`-1`, `0.5`, `1001`, `"2"`}},
	"lb_config.overload.status": {`503`, func(c *Config) { c.Overload.Status = 503 }, []string{`200`, `600`, `"503"`}},
	"lb_config.overload.retry_after": {
		`2500`, func(c *Config) { c.Overload.RetryAfter = 2500 * time.Millisecond }, []string{`"2"`, `-1`, `"2h"`},
	},
	"lb_config.weights": {
		`{"10.0.0.1:80":2.5}`, func(c *Config) { c.Weights = map[string]float64{"10.0.0.1:80": 2.5} },
		[]string{`[]`, `{"a":1}`, `{"10.0.0.1:80":0}`},
	},
	keyMaxWait:                   {`"10s"`, func(c *Config) { c.Queue.MaxWait = 10 * time.Second }, []string{`-1`, `"61m"`, `"10"`}},
	keyFromZero:                  {`true`, func(c *Config) { c.Queue.FromZero = true }, []string{`1`, `"true"`, `null`}},
	"lb_config.queue.max_length": {`50`, func(c *Config) { c.Queue.MaxLength = 50 }, []string{`0`, `100001`, `1.5`}},
	"lb_config.queue.max_bytes": {
		`"1MiB"`, func(c *Config) { c.Queue.MaxBytes = 1 << 20 }, []string{`0`, `"63KiB"`, `"1025MiB"`},
	},
	"lb_config.queue.order": {`"strict"`, func(c *Config) { c.Queue.Order = Strict }, []string{`"Strict"`, `true`}},
	keyClasses: {
		`{"batch":1,"interactive":{"weight":8,"reserved":0.1,"from_priority":-5}}`, func(c *Config) {
			c.Queue.Classes = []Class{
				{lb.Class{ID: classID("interactive"), Weight: 8, Reserved: 100}, "interactive", -5, 0.1},
				{lb.Class{ID: classID("batch"), Rank: 1, Weight: 1}, "batch", NoPriority, 0},
			}
		},
		[]string{
			`["batch"]`, `8`, `{"Batch":1}`, `{"batch":0}`, `{"batch":{"reserved":1}}`, `{"batch":{"wait":1}}`,
			`{"batch":{"from_priority":0.5}}`,
		},
	},
	keyClassHeader: {
		`"x-class"`, func(c *Config) { c.Queue.ClassHeader = "x-class" }, []string{`""`, `"X-Class"`, `":path"`, `1`},
	},
	keyDefaultClass: {
		`"default"`, func(c *Config) { c.Queue.DefaultClass = "default" }, []string{`""`, `"batch"`, `"Default"`, `1`},
	},
	"lb_config.queue.aging": {`0`, func(c *Config) { c.Queue.Aging = 0 }, []string{`-1`, `"61m"`, `""`}},
	"lb_config.queue.skip":  {`8`, func(c *Config) { c.Queue.Skip = 8 }, []string{`-1`, `1001`, `"8"`}},
	"lb_config.queue.patience": {
		`500`, func(c *Config) { c.Queue.Patience = 500 * time.Millisecond }, []string{`-1`, `"61m"`, `"x"`},
	},
	"lb_config.queue.deadline_header": {
		`"x-deadline"`, func(c *Config) { c.Queue.DeadlineHeader = "x-deadline" }, []string{`""`, `"x deadline"`, `null`},
	},
	"lb_config.queue.tenant_header": {
		`"x-tenant"`, func(c *Config) { c.Queue.TenantHeader = "x-tenant" }, []string{`""`, `"x-tenänt"`, `[]`},
	},
	keyTenantShare: {`0.25`, func(c *Config) { c.Queue.TenantMaxShare = 0.25 }, []string{`0`, `-0.5`, `1.01`, `"1"`}},
	keyPriority: {
		`["header:X-Priority","body:nvext.agent_hints.priority"]`,
		func(c *Config) {
			c.Queue.PriorityFrom = []Source{
				{From: FromHeader, Name: "x-priority"},
				{From: FromBody, Path: []string{"nvext", "agent_hints", "priority"}},
			}
		},
		[]string{`"header:x"`, `[]`, `["x"]`, `["body:"]`},
	},
	keyOutputFrom: {
		`["body:nvext.agent_hints.osl"]`,
		func(c *Config) {
			c.OutputFrom = []Source{{From: FromBody, Path: []string{"nvext", "agent_hints", "osl"}}}
		},
		[]string{`"body:x"`, `[]`, `[1]`},
	},
	keyFirstTurn:              {`"default"`, func(c *Config) { c.Queue.FirstTurn = "default" }, []string{`""`, `1`}},
	keyLaterTurn:              {`"default"`, func(c *Config) { c.Queue.LaterTurn = "default" }, []string{`"a"`, `1`}},
	"lb_config.queue.fair_by": {`"session"`, func(c *Config) { c.Queue.FairBy = BySession }, []string{`"Session"`, `true`}},
	"lb_config.queue.retry_budget": {
		`0`, func(c *Config) { c.Queue.RetryBudget = 0 }, []string{`-1`, `101`, `2.5`, `"10%"`},
	},
	keyRegionName: {
		`"us"`, func(c *Config) { c.Regions.Name, c.Regions.Cluster, c.Regions.Secret = "us", "home", testSecret },
		[]string{`""`, `1`, `"a b"`, `"a;b"`, `"é"`, `"` + strings.Repeat("x", region.MaxName+1) + `"`},
	},
	keyPeers: {
		`[{"name":"eu","cluster":"warmgate-peer-eu","rtt":"80ms"},{"cluster":"b","name":"ap","adopt":{"cluster":"c"},"forward_cluster":"d"}]`,
		func(c *Config) {
			c.Regions.Name, c.Regions.Cluster, c.Regions.Secret = "us", "home", testSecret
			c.Regions.Peers = []Peer{{"eu", "warmgate-peer-eu", 80e6, "", ""}, {"ap", "b", 100e6, "d", "c"}}
		},
		[]string{`[]`, `{}`, `["eu"]`, `[{"name":"eu"}]`, `[{"name":"eu","cluster":"a","rtt":"2s"}]`},
	},
	"lb_config.regions.probe_interval": {`"1s"`, func(c *Config) { c.Regions.Interval = 1e9 }, []string{`49`, `"11s"`, `"1"`}},
	keyGone:                            {`"5s"`, func(c *Config) { c.Regions.Gone = 5 * time.Second }, []string{`499`, `"61m"`, `"3"`}},
	keySteady:                          {`0`, func(c *Config) { c.Regions.Steady = 0 }, []string{`-1`, `"61m"`, `"3"`}},
	"lb_config.regions.queue_buffer": {
		`0`, func(c *Config) { c.Regions.Buffer = 0 }, []string{`-1`, `1001`, `0.5`, `"2"`},
	},
	keyRegionCluster: {
		`"llm"`, func(c *Config) { c.Regions.Cluster = "llm" },
		[]string{`""`, `1`, `"a b"`, `"` + strings.Repeat("x", maxClusterName+1) + `"`},
	},
	keyRegionSecret: {
		`"` + testSecret + `"`, func(c *Config) { c.Regions.Secret = testSecret },
		[]string{`""`, `"0123456789abcde"`, `1`, `"` + strings.Repeat("x", 1025) + `"`},
	},
	keyRegionBefore: {
		`"` + testSecret + `"`, func(c *Config) { c.Regions.Previous = testSecret },
		[]string{`""`, `"0123456789abcde"`, `1`, `"change-me-0123456789"`},
	},
	keyAllowed: {
		`[]`, func(c *Config) {
			c.Regions.Name, c.Regions.Cluster, c.Regions.Secret = "us", "home", testSecret
			c.Regions.Peers, c.Regions.Allowed = []Peer{{"eu", "a", 100e6, "", ""}}, []string{}
		},
		[]string{`"eu"`, `[1]`, `["ap"]`, `["eu","eu"]`, `null`},
	},
	"lb_config.regions.cached_first":   {`true`, func(c *Config) { c.Regions.CachedFirst = true }, []string{`1`}},
	"lb_config.regions.snapshot_bytes": {`"2MiB"`, func(c *Config) { c.Regions.Memory = 2 << 20 }, []string{`0`, `"63KiB"`}},
	"lb_config.regions.cluster_header": {
		`"X-Region"`, func(c *Config) { c.Regions.Header = "x-region" },
		[]string{`1`, `":path"`, `"host"`, `"x-envoy-a"`, `"x-warmgate-hop"`},
	},
	"lb_config.max_inspect_bytes": {
		`"1MiB"`, func(c *Config) { c.MaxInspectBytes = 1 << 20 },
		[]string{`100`, `"9MiB"`, `"64"`, `"KiB"`, `"1.0001KiB"`},
	},
	"lb_config.max_scan_bytes": {
		`"1MiB"`, func(c *Config) { c.MaxScanBytes = 1 << 20 }, []string{`100`, `"65MiB"`, `"64"`},
	},
	"lb_config.body_timeout": {
		`"1.5s"`, func(c *Config) { c.BodyTimeout = 1500 * time.Millisecond }, []string{`0`, `"1d"`, `true`},
	},
	"lb_config.output_tokens": {`1000`, func(c *Config) { c.OutputTokens = 1000 }, []string{`-1`, `0.5`}},
	"lb_config.max_request_tokens": {
		`4096`, func(c *Config) { c.MaxRequestTokens = 4096 }, []string{`0`, `-1`, `1.5`, `"x"`},
	},
	"lb_config.bytes_per_token": {
		`3.6`, func(c *Config) { c.BytesPerToken = 3.6 }, []string{`0`, `-4`, `101`, `1e400`},
	},
	"lb_config.telemetry.spans": {`true`, func(c *Config) { c.Telemetry.Spans = true }, []string{`1`, `"on"`}},
	keySubset:                   {`"header"`, func(c *Config) { c.SubsetHint = SubsetHeader }, []string{`"Header"`, `true`}},
	"lb_config.debug_headers":   {`true`, func(c *Config) { c.DebugHeaders = true }, []string{`"true"`}},
	"lb_config.telemetry.enabled": {
		`false`, func(c *Config) { c.Telemetry.Enabled = false }, []string{`"false"`, `0`},
	},
	"lb_config.telemetry.read_answers": {
		`false`, func(c *Config) { c.Telemetry.ReadAnswers = false }, []string{`"false"`, `1`},
	},
	"lb_config.telemetry.log": {
		`"both"`, func(c *Config) { c.Telemetry.Log = LogBoth }, []string{`true`, `"off"`, `["line"]`},
	},
	"lb_config.shadow":              {`true`, func(c *Config) { c.Shadow = true }, []string{`0`}},
	"lb_config.enableDetailLog":     {`true`, func(c *Config) { c.DetailLog = true }, []string{`[true]`}},
	"lb_config.envoy.admin_cluster": {`"a"`, func(c *Config) { c.EnvoyCfg.AdminCluster = "a" }, []string{`""`, `1`}},
	"lb_config.envoy.poll_interval": {
		`"2s"`, func(c *Config) { c.EnvoyCfg.PollInterval = 2 * time.Second }, []string{`1`, `"2m"`},
	},
	"lb_config.envoy.endpoints": {
		`["10.0.0.1:80"]`, func(c *Config) { c.EnvoyCfg.Endpoints = []StaticEndpoint{{"10.0.0.1:80", 1}} },
		[]string{`[]`, `"10.0.0.1:80"`, `[[]]`},
	},
	"lb_config.envoy.redis_cluster": {
		`"r"`, func(c *Config) { c.Redis.Cluster, c.Store = "r", StoreRedis }, []string{`""`, `1`},
	},
	"lb_config.redis_scope": {
		`"blue"`, func(c *Config) { c.Redis.Scope = "blue" }, []string{`""`, `1`, `null`},
	},
	"lb_config.store": {`"local"`, nil, []string{`"Redis"`, `"memory"`, `1`}},
	"lb_config.reserve_timeout": {
		`"1.5ms"`, func(c *Config) { c.ReserveTimeout = 1500 * time.Microsecond }, []string{`0`, `"11s"`, `"x"`},
	},
	"lb_config.serviceFQDN": {
		`"r.dns"`, func(c *Config) { c.Redis.ServiceFQDN, c.Redis.ServicePort, c.Store = "r.dns", 6379, StoreRedis },
		[]string{`["r"]`, `"a|b"`, `"redis://h:6379"`},
	},
	"lb_config.servicePort": {
		`6380`, func(c *Config) { c.Redis.ServicePort = 6380 }, []string{`-1`, `65536`, `"65536"`, `[6380]`},
	},
	"lb_config.username": {`"u"`, func(c *Config) { c.Redis.Username = "u" }, []string{`["u"]`}},
	"lb_config.password": {`"p"`, func(c *Config) { c.Redis.Password = "p" }, []string{`{"p":1}`}},
	"lb_config.timeout": {
		`500`, func(c *Config) { c.Redis.Timeout = 500 * time.Millisecond }, []string{`[500]`},
	},
	"lb_config.database": {
		`3`, func(c *Config) { c.Redis.Database = 3 }, []string{`-1`, `"-1"`, `65536`, `{}`},
	},
	keySession: {
		`["header:X-Session","cookie:sid","query:u","body:metadata.user_id","client_address"]`,
		func(c *Config) {
			c.Session = []Source{
				{From: FromHeader, Name: "x-session"},
				{From: FromCookie, Name: "sid"},
				{From: FromQuery, Name: "u"},
				{From: FromBody, Path: []string{"metadata", "user_id"}},
				{From: FromClient},
			}
		},
		[]string{
			`"header:x"`, `[]`, `[1]`, `["x-session"]`, `["header"]`, `["header:"]`, `["headers:x"]`, `["body:a..b"]`,
			`["body:"]`, `["client_address:x"]`, `["header:a b"]`, `["cookie:a=b"]`, `["header:x","header:X"]`,
			`["body:a","body:a"]`, `["body:1.2.3.4.5.6.7.8.9"]`, `["header:` + strings.Repeat("x", 256) + `"]`,
		},
	},
	keyHashHeader: {
		`"X-User"`,
		func(c *Config) {
			c.hashHeader, c.Session = "X-User", []Source{{From: FromHeader, Name: "x-user"}}
		},
		[]string{`["x"]`, `"a b"`},
	},
	"lb_config.session.load_factor":  {`1.5`, nil, []string{`1`, `0`, `101`, `"1.5"`}},
	"lb_config.session.min_inflight": {`8`, nil, []string{`-1`, `0.5`, `10001`, `"8"`}},
	"lb_config.stickyTimeout":        {`60`, nil, []string{`[60]`}},
	"lb_config.session_affinity": {
		`true`, func(c *Config) { c.Prefix.SessionAffinity = true }, []string{`1`, `"true"`},
	},
	"lb_config.redisKeyTTL": {`60`, func(c *Config) { c.Prefix.TTL = time.Minute }, []string{`[60]`}},
	"lb_config.objective.tpot": {
		`4`, func(c *Config) { c.Prefix.Objective.TPOT = 4 }, []string{`-1`, `1001`, `"1"`},
	},
	"lb_config.objective.ttft": {
		`0.5`, func(c *Config) { c.Prefix.Objective.TTFT = 0.5 }, []string{`-1`, `1001`, `"1"`},
	},
	"lb_config.prefix.block_bytes": {
		`"1KiB"`, func(c *Config) { c.Prefix.BlockBytes = 1024 }, []string{`63`, `"65KiB"`, `0`},
	},
	"lb_config.prefix.credit": {
		`2.5`, func(c *Config) { c.Prefix.Credit = 2.5 }, []string{`-1`, `1001`, `"1"`},
	},
	"lb_config.prefix.if_available_tokens": {
		`16`, func(c *Config) { c.Prefix.IfAvailable = 16 }, []string{`-1`, `1.5`, `"16"`},
	},
	"lb_config.slo.ttft": {
		`"2s"`, func(c *Config) { c.Prefix.Target.TTFT = 2 * time.Second }, []string{`-1`, `"61m"`, `"soon"`},
	},
	"lb_config.slo.tpot": {
		`50`, func(c *Config) { c.Prefix.Target.PerToken = 50 * time.Millisecond }, []string{`-1`, `"61s"`, `{}`},
	},
	"lb_config.prefix.redis_bytes": {
		`"256MiB"`, func(c *Config) { c.Prefix.IndexMemory.Remote = 256 << 20 }, []string{`0`, `"1023KiB"`, `"16385MiB"`},
	},
	"lb_config.prefix.table_bytes": {
		`"1MiB"`, func(c *Config) { c.Prefix.IndexMemory.Local = 1 << 20 }, []string{`0`, `"2GiB"`},
	},
	"lb_config.prefix.cache_tokens": {
		`400000`, func(c *Config) { c.Prefix.CacheTokens = 400000 }, []string{`-1`, `1.5`, `"1"`},
	},
	"lb_config.prefix.tenant_header": {
		`"x-tenant"`, func(c *Config) { c.Prefix.TenantHeader = "x-tenant" }, []string{`""`, `1`},
	},
	"lb_config.prefix.secret": {`"s"`, func(c *Config) { c.Prefix.Secret = "s" }, []string{`1`}},
	"lb_config.cleanInterval": {`5`, nil, []string{`[5]`}},
	"lb_config.metric_policy": {
		`"most"`, func(c *Config) { c.Engines.Order = engines.HighestTarget }, []string{`["most"]`},
	},
	"lb_config.target_metric":  {`"m"`, func(c *Config) { c.Engines.Target = "m" }, []string{`["m"]`}},
	"lb_config.rate_limit":     {`"0.5"`, func(c *Config) { c.Engines.RateLimit = 0.5 }, []string{`[0.5]`}},
	"lb_config.engine":         {`"sglang"`, func(c *Config) { c.engine = "sglang" }, []string{`["sglang"]`}},
	"lb_config.window_size":    {`100`, nil, []string{`[100]`}},
	"lb_config.window_seconds": {`60`, nil, []string{`{}`}},
	"lb_config.metrics.engine": {
		`"llama.cpp"`, func(c *Config) { c.Engines.Engine = "llama.cpp" }, []string{`"vLLM"`, `1`},
	},
	"lb_config.metrics.path": {
		`"/prometheus/metrics"`, func(c *Config) { c.Engines.Path = "/prometheus/metrics" }, []string{`""`, `1`},
	},
	"lb_config.metrics.port": {
		`8002`, func(c *Config) { c.Engines.Port = 8002 }, []string{`-1`, `65536`, `"8002"`},
	},
	"lb_config.metrics.interval": {
		`500`, func(c *Config) { c.Engines.Interval = 500 * time.Millisecond }, []string{`199`, `"2m"`},
	},
	"lb_config.metrics.stale_after": {
		`"10s"`, func(c *Config) { c.Engines.StaleAfter = 10 * time.Second }, []string{`399`, `"11m"`},
	},
	"lb_config.metrics.orca":          {`true`, nil, []string{`1`}}, // not for this policy
	"lb_config.metrics.learn_weights": {`false`, func(c *Config) { c.Engines.Learn = false }, []string{`0`}},
	"lb_config.envoy.metrics_cluster": {`"m"`, func(c *Config) { c.Engines.Cluster = "m" }, []string{`""`, `1`}},
	"lb_config.metrics.weights.running": {
		`2`, func(c *Config) { c.Engines.Weights.Running = 2 }, []string{`-1`, `1001`, `"1"`},
	},
	"lb_config.metrics.weights.queue":    {`0`, func(c *Config) { c.Engines.Weights.Queue = 0 }, []string{`-1`}},
	"lb_config.metrics.weights.kv_cache": {`0.5`, func(c *Config) { c.Engines.Weights.KVCache = 0.5 }, []string{`-1`}},
	"lb_config.metrics.weights.lora":     {`3`, func(c *Config) { c.Engines.Weights.LoRA = 3 }, []string{`-1`}},
	"lb_config.health.ejection_time": {
		`2000`, func(c *Config) { c.Health.EjectionTime = 2 * time.Second }, []string{`99`, `"61m"`},
	},
	keyRanks: {`true`, func(c *Config) {
		c.Ranks = Ranks{Enabled: true, Apart: true}
		c.settleMetricsID(Higress)
	}, []string{`1`, `"true"`}},
	keyRankCount:                       {`4`, func(c *Config) { c.Ranks.Count = 4 }, []string{`-1`, `65`, `"4"`}},
	"lb_config.health.slow_start":      {`0`, func(c *Config) { c.Health.SlowStart = 0 }, []string{`-1`, `"2h"`}},
	"lb_config.zone_penalty":           {`2.5`, func(c *Config) { c.ZonePenalty = 2.5 }, []string{`-1`, `1e7`, `"2"`}},
	"lb_config.health.panic_threshold": {`0`, func(c *Config) { c.Health.PanicThreshold = 0 }, []string{`-1`, `101`}},
	"lb_config.health.consecutive_failures": {
		`0`, func(c *Config) { c.Health.ConsecutiveFailures = 0 }, []string{`-1`, `1001`},
	},
	"lb_config.health.max_ejection_time": {`"1h"`, func(c *Config) { c.Health.MaxEjectionTime = time.Hour }, []string{`99`}},
	"lb_config.health.max_ejection_percent": {
		`100`, func(c *Config) { c.Health.MaxEjectionPercent = 100 }, []string{`-1`, `101`},
	},

	"_rules_":                        {`[{"_match_route_":["r"],"enabled":false}]`, nil, []string{`{}`, `"r"`, `[1]`}},
	"_rules_[]._match_route_":        {`["r"]`, nil, []string{`[]`, `1`, `[""]`}},
	"_rules_[]._match_route_prefix_": {`["r"]`, nil, []string{`[]`, `1`, `[""]`}},
	"_rules_[]._match_domain_":       {`["r"]`, nil, []string{`[]`, `1`, `[""]`}},
	"_rules_[]._match_service_":      {`"r"`, nil, []string{`[]`, `1`, `[""]`}},
}

func TestEveryKey(t *testing.T) {
	for _, k := range Keys() {
		tt, ok := keyCases[k.Name]
		if !ok {
			t.Errorf("%s: documented, but not tested", k.Name)
			continue
		}
		if k.Type == "" || k.Meaning == "" {
			t.Errorf("%s: no type or meaning", k.Name)
		}
		text, h := document(k.Name, tt.good)
		set, err := Parse([]byte(text), h)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		want := defaults(h)
		if want.Policy = "global_least_request"; k.Name != "enabled" {
			want.Store = StoreLocal
		}
		if strings.Contains(text, `"admin_cluster":"c"`) {
			want.EnvoyCfg.AdminCluster = "c"
		}
		if tt.want != nil {
			tt.want(&want)
		}
		if set.global != nil && !reflect.DeepEqual(*set.global, want) {
			t.Errorf("%s: got %+v, want %+v", text, *set.global, want)
		}
		for _, val := range tt.bad {
			text, h := document(k.Name, val)
			place := strings.Replace(k.Name, "[]", "[0]", 1)
			if _, err := Parse([]byte(text), h); err == nil || !strings.Contains(err.Error(), "\n  "+place) {
				t.Errorf("%s: got %v, want a problem at %s", text, err, place)
			}
		}
	}
	if len(keyCases) != len(Keys()) {
		t.Errorf("%d keys tested, %d documented", len(keyCases), len(Keys()))
	}
}
