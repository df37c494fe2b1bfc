package config

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/policy"
	"github.com/warmgate/warmgate/lb/push"
	"github.com/warmgate/warmgate/lb/setting"
)

// check compares the keys of a part with each other, and completes the Config.
func (pt *part) check() {
	if !pt.Enabled {
		return
	}
	if !pt.written["lb_policy"] {
		pt.badKey("lb_policy", "missing, want "+anyPolicy())
	}
	if pt.written["lb_config.maxRequestCount"] {
		if pt.written[keyMaxInflight] && pt.MaxInflight != pt.maxRequestCount {
			pt.badKey(keyMaxInflight, "got "+strconv.Itoa(pt.MaxInflight)+" and maxRequestCount "+
				strconv.Itoa(pt.maxRequestCount)+", which is the same thing; want one of them")
		}
		pt.MaxInflight = pt.maxRequestCount
	}
	pt.checkPush()
	pt.checkQueue()
	pt.checkStore()
	pt.checkHashed()
	pt.checkSession()
	pt.Policy = cmp.Or(policy.Describe(pt.Policy).Name, pt.Policy) // not one of its aliases
	pt.warnUnused()
	if !pt.Telemetry.Enabled {
		pt.idle([]string{keyReadAnswers}, "has no effect with telemetry.enabled false")
	}
	pt.checkLevel()
	checkRanks(pt)
	pt.checkMetrics()
	pt.checkModels()
	pt.checkRegions()
	pt.checkAPIs()
	pt.checkPolicy()
	checkPrices(pt)
	pt.checkTokenCap()
	pt.settleMetricsID(pt.host)
	if pt.Health.MaxEjectionTime < pt.Health.EjectionTime {
		pt.badKey("lb_config.health.max_ejection_time", "got "+brief(pt.Health.MaxEjectionTime)+
			", want at least ejection_time, "+brief(pt.Health.EjectionTime))
	}
	if pt.host == Envoy {
		admin, fixed := pt.written[keyAdmin], pt.written["lb_config.envoy.endpoints"]
		switch {
		case pt.AmongClusters():
		case !admin && !fixed:
			pt.badKey("lb_config.envoy",
				"missing, want admin_cluster or endpoints: stock Envoy does not list endpoints otherwise")
		case admin && fixed:
			pt.badKey("lb_config.envoy", "got both admin_cluster and endpoints, want one of them")
		case fixed:
			pt.idle([]string{keyZones}, "has no effect with envoy.endpoints: their zones are not known")
			pt.idle([]string{keyFromZero}, "has no effect with envoy.endpoints: they are always there")
		}
	}
}

// anyPolicy lists the policies: "a", "b" or "c".
func anyPolicy() string {
	var list strings.Builder
	policies := policy.All()
	for i, d := range policies {
		switch i {
		case 0:
		case len(policies) - 1:
			list.WriteString(" or ")
		default:
			list.WriteString(", ")
		}
		list.WriteString(strconv.Quote(d.Name))
	}
	return list.String()
}

// checkPolicy completes the settings of the policy.
func (pt *part) checkPolicy() {
	d := policy.Describe(pt.Policy)
	if why := d.Needs.Tokens; why != "" {
		if pt.written[keyUnit] && !pt.invalid[keyUnit] && pt.Unit != lb.Tokens {
			pt.badKey(keyUnit, `got "`+pt.Unit.String()+`", want "tokens" or nothing: `+d.Name+" "+why)
		}
		pt.Unit = lb.Tokens
	}
	if d.Settings != nil {
		settings := settingsOf(d)(&pt.Config)
		if d.Check != nil && d.Among.Includes(pt.level()) {
			d.Check(settings, report{pt})
		}
	}
	own := pt.own
	pt.own = nil
	if s, ok := own[d.Name]; ok { // those of other policies have no effect
		pt.own = map[string]any{d.Name: s}
	}
}

// report is a part as a policy sees it, with the names of keys below lb_config.
type report struct{ *part }

var _ setting.Report = report{}

func (r report) Written(key string) bool     { return r.written[section+key] }
func (r report) Problem(key, problem string) { r.bad(r.prefix+section+key, problem) }
func (r report) Warning(key, problem string) { r.warn(r.prefix+section+key, problem) }

// warnUnused warns of the keys of other policies. Keys that never have an effect have a warning of their own.
func (pt *part) warnUnused() {
	for _, name := range policy.Names() {
		for i := range keys {
			k := &keys[i]
			reads := pt.Push == push.Pending || pt.readsRanks() // any policy reads metrics
			if k.Name == keyMetricsCluster || reads && slices.Equal(k.users, metricsPolicies()) {
				continue // the first is a way, whatever goes it
			}
			if k.Name == keySession && pt.QueuesSessions() || k.Name == keyLoRA && pt.KeepsModels() {
				continue
			}
			if len(k.users) > 0 && k.users[0] == name && k.NoEffect == "" && !slices.Contains(k.users, pt.Policy) {
				pt.idle([]string{k.Name}, "has no effect without lb_policy "+strings.Join(k.users, " or "))
			}
		}
	}
}

// checkLevel compares what is chosen among with the policy and with other keys.
func (pt *part) checkLevel() {
	level, other := pt.level(), typeCluster
	if level == policy.Clusters {
		other = typeEndpoint
	}
	if d := policy.Describe(pt.Policy); d.New != nil && !d.Among.Includes(level) {
		pt.badKey("lb_policy", `got "`+d.Name+`", which chooses with lb_type "`+other+`" only, want `+
			oneOf(policiesFor(level))+` with lb_type "`+pt.Type+`"`)
	}
	if !pt.AmongClusters() {
		pt.idle([]string{keyClusters, keyHashClusters, keyClusterHeader, keyFirst, keyNested}, `has no effect without lb_type "cluster"`)
		pt.Clusters, pt.nested = pt.base.Clusters, nil
		pt.shares = nil
		pt.checkWeights(wantAddress, func(string) bool { return false })
		pt.checkTargets()
		return
	}
	pt.checkTargets()
	pt.checkClusters()
	pt.checkNested()
}

// outerKeys are the keys that lb_config.endpoint takes from the part around it.
func outerKeys() []string {
	return append([]string{
		"enabled", "lb_type", keyStore, "lb_config.debug_headers", "lb_config.shadow", "lb_config.enableDetailLog",
		keyAdmin, "lb_config.envoy.poll_interval", keyClusters, keyHashClusters, keyClusterHeader, keyFirst,
		keyNested, keyAPIPath, keyAPIToken, keyAPIOnly, keyCallers, keyLeaseTTL, keyMaxHint, keyInspectPath,
		keyInspectToken, keyPrices, keyCurrency, keyPricedTenant, keyTelemetry, keyReadAnswers,
		"lb_config.telemetry.log",
		"lb_config.telemetry.spans",
	}, redisKeys...)
}

// checkNested parses lb_config.endpoint.
func (pt *part) checkNested() {
	if pt.nested == nil {
		return
	}
	v, prefix := pt.nested.value, pt.nested.at+"."
	pt.nested = nil
	if len(pt.Clusters.First) > 0 {
		pt.badKey(keyNested, "got it beside first_clusters, want one of them: Envoy balances inside an "+
			"aggregate cluster by itself")
	}
	in := &part{parser: pt.parser, Config: pt.base, prefix: prefix}
	in.written, in.invalid, in.ID = map[string]bool{}, map[string]bool{}, pt.ID
	in.object("", v, nil)
	for _, name := range outerKeys() {
		if in.written[name] {
			in.bad(prefix+name, "is taken from the configuration around lb_config.endpoint, want it there")
		}
		in.written[name] = name == keyAdmin && pt.written[name]
	}
	in.refuseRegions(prefix+"lb_config.regions", `got regions inside lb_type "cluster", want one of them`)
	in.Enabled, in.EnvoyCfg.AdminCluster = true, pt.EnvoyCfg.AdminCluster
	in.EnvoyCfg.PollInterval = pt.EnvoyCfg.PollInterval
	in.Store, in.ReserveTimeout, in.Redis = pt.Store, pt.ReserveTimeout, pt.Redis
	in.DebugHeaders, in.Shadow, in.DetailLog, in.Prices = pt.DebugHeaders, pt.Shadow, pt.DetailLog, pt.Prices
	in.Telemetry = pt.Telemetry
	in.check()
	pt.Clusters.Endpoint = &in.Config
}
