package policy

import (
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/setting"
)

func init() {
	register(&Descriptor{
		Name: "consistent_hash", Aliases: []string{"endpoint_hash", "cluster_hash"}, Rank: 5,
		Meaning: setting.Doc(
			"the same endpoint for all requests of a session, unless it is too busy there",
			"同一会话的请求总是到同一端点，除非它太忙",
		),
		Among:    EndpointsOrClusters,
		Needs:    Needs{Session: SessionRequired},
		Settings: func() any { return new(HashConfig) },
		Keys:     hashKeys,
		New:      newConsistentHash,
	})
}

// HashConfig is the settings of consistent_hash.
type HashConfig struct {
	LoadFactor float64 // see [lb.Home.LoadFactor]
	Free       int     // see [lb.Home.Free]
}

// KeySession is the configuration's key of where the key of a session is read, which package config parses.
const KeySession = "session.key"

var hashKeys = []setting.Key{
	{
		Name: "session.load_factor", Type: setting.Number, Min: 1.01, Max: 100, Default: "1.25",
		Title: setting.Doc("Load factor", "负载系数"),
		Meaning: setting.Doc(
			"consistent_hash: how much work in flight is too much for an endpoint, as a multiple of its fair share; "+
				"requests of its sessions then go to the next endpoint in their order. With 1.25 that is a quarter "+
				"more than its share",
			"consistent_hash：端点的在途工作量达到其应占份额的多少倍就算过多；此后属于它的会话的请求改发到顺序中的下一个端点。"+
				"1.25 即比其份额多四分之一",
		),
		Field: func(s any) any { return &s.(*HashConfig).LoadFactor },
	},
	{
		Name: "session.min_inflight", Type: setting.Integer, Min: 0, Max: 10000, Default: "4",
		Title: setting.Doc("Requests that always fit", "始终可容纳的请求数"),
		Meaning: setting.Doc(
			"consistent_hash: while an endpoint has fewer requests in flight, times its weight, it is not too busy "+
				"for its sessions, however little the others have",
			"consistent_hash：端点的在途请求少于此数（乘以权重）时，无论其他端点多空闲，都不算太忙",
		),
		Field: func(s any) any { return &s.(*HashConfig).Free },
	},
	{
		Name: "stickyTimeout", Type: setting.Integer, Min: 0, Max: 1e9, Loose: true,
		NoEffect: "has no effect: where a session belongs follows from its key, and nothing has to be remembered",
		Title:    setting.Doc("Session lifetime", "会话保留时间"),
		Meaning: setting.Doc(
			"Higress: minutes until a session is forgotten, proposed there; here nothing is remembered",
			"Higress：会话保留的分钟数（Higress 的提案）；此处无需记忆",
		),
		Field: setting.Nowhere,
	},
}

// consistentHash is consistent_hash: the endpoint where a session belongs, or the next one in its order that carries
// less than load_factor times its part of the load of all workers and gateways. Without a key it is
// global_least_request.
type consistentHash struct {
	*leastRequest
	settings HashConfig
	homes    homes
}

func newConsistentHash(c Config) (lb.Policy, error) {
	return &consistentHash{
		leastRequest: newLeastRequestIn(c, c.Unit), settings: *c.Settings.(*HashConfig),
	}, nil
}

// Plan makes every healthy endpoint a candidate, and names the order in which the session prefers them.
func (p *consistentHash) Plan(now time.Duration, r *lb.Request, v *lb.View) (lb.Plan, lb.Reason) {
	if r.Session == 0 {
		return p.leastRequest.Plan(now, r, v)
	}
	keyed := *r
	keyed.Random = sessionDraw(r.Session, r.Random)
	plan, reason := p.basePlan(now, &keyed, v)
	if reason != lb.ReasonChosen {
		return plan, reason
	}
	var tier uint8
	if r.Idle {
		plan, tier = p.planIdle(now, r, v, plan)
	} else {
		tier, _ = p.finish(now, r, &plan, v)
	}
	plan.Home = lb.Home{
		Order:      p.homes.order(now, r.Session, plan.List, tier, v, p.cluster),
		LoadFactor: p.settings.LoadFactor, Free: int64(p.settings.Free),
	}
	return plan, lb.ReasonChosen
}

// sessionDraw returns the random bits of a request that has a session: those that draw the tier follow from the key, so
// that a session stays in its tier, and those that draw endpoints in slow start are all set, which draws none. The load
// factor keeps such an endpoint from more than its part.
func sessionDraw(key, random uint64) uint64 {
	const tier, start = 0xffff << 32, 0xffff << 48
	return random&^tier | lb.Mix(key)&tier | start
}
