package core

import (
	"errors"
	"maps"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/cache"
	lbengines "github.com/warmgate/warmgate/lb/engines"
	"github.com/warmgate/warmgate/lb/health"
	"github.com/warmgate/warmgate/lb/models"
	"github.com/warmgate/warmgate/lb/policy"
	"github.com/warmgate/warmgate/lb/push"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/endpoints"
	"github.com/warmgate/warmgate/plugin/engines"
	"github.com/warmgate/warmgate/plugin/learned"
	"github.com/warmgate/warmgate/plugin/stats"
)

// clusters is the part of a VM that keeps what is known of each cluster, by name.
type clusters map[string]*cluster

// cluster is what one VM knows of a cluster.
type cluster struct {
	name     string
	usedAt   time.Duration
	views    map[uint64]*lb.View // the latest of each source
	policies map[*config.Config]lb.Policy

	health  *health.Health
	facts   *models.Facts
	caches  *cache.Tracker
	engines *lbengines.Samples
	shares  *policy.RequestShares
	limits  *push.Limits
	// of clusters, where this stands for several
	latencies *policy.Latencies

	tokens  bool            // a configuration in force counts tokens
	pending bool            // one goes by push limits
	guess   learned.Guess   // of that configuration
	samples learned.Samples // whose answers are read with unit: tokens, by the class of the client's limit

	ends       learned.Sample           // whose streams are read to their ends
	suspects   map[string]time.Duration // endpoints all of whose streams are, until when
	terminates bool                     // a stream had what ends one in its API
	outputs    uint32                   // a bit for each API of which an answer had output
	announces  learned.Announcements    // what the first events of APIs are that are not known
	calls      learned.Calls            // what calls are that no table lists

	inflight  int            // requests of this VM
	waiting   int            // of those, that wait in the queue of the local store
	answering map[string]int // of those, by endpoint, whose response has begun

	queue   queueUse // for requests that wait
	retries retryBudget
	answers learned.AnswerTimes
	capsAt  time.Duration             // when a waiting request brought the latest caps to the queue
	caps    map[*config.Config]uint32 // digests of what the caps follow from

	prompts promptStats      // for prefix_cache
	metrics *engines.Cluster // of its engines, and lists of their models
	shown   *stats.Cluster   // statistics, nil before the first are set
	// levelsAt is when Redis was asked what is left of budgets.
	levelsAt map[*config.Config]time.Duration
}

// errClusters reports that too many clusters are in use.
var errClusters = errors.New("core: too many clusters")

// get returns what is known of the cluster, with the policy of the configuration.
func (cs clusters) get(now time.Duration, name string, c *config.Config) (*cluster, lb.Policy, error) {
	cl := cs[name]
	if cl == nil {
		if len(cs) >= endpoints.MaxClusters {
			return nil, nil, errClusters
		}
		cl = &cluster{
			name: name, views: map[uint64]*lb.View{}, policies: map[*config.Config]lb.Policy{},
			health: health.New(), facts: models.NewFacts(), caches: cache.NewTracker(), engines: lbengines.New(),
			shares: policy.NewRequestShares(), latencies: policy.NewLatencies(), caps: map[*config.Config]uint32{},
			answering: map[string]int{}, levelsAt: map[*config.Config]time.Duration{},
			suspects: map[string]time.Duration{},
		}
		cl.limits = push.New(cl.engines)
		cl.metrics = engines.NewCluster(name, cl.engines, cl.facts, cl.views)
		cs[name] = cl
	}
	cl.usedAt = now
	if c.Unit == lb.Tokens {
		cl.tokens, cl.guess = true, guessOf(c)
	}
	cl.pending = cl.pending || c.Push == push.Pending
	p := cl.policies[c]
	if p == nil {
		var err error
		if p, err = policy.New(c.Policy, configOf(c, cl)); err != nil {
			return nil, nil, err
		}
		cl.policies[c] = p
	}
	return cl, p, nil
}

// EnginesOf implements engines.Clusters.
func (cs clusters) EnginesOf(name string) *engines.Cluster {
	if cl := cs[name]; cl != nil {
		return cl.metrics
	}
	return nil
}

// EachEngines implements engines.Clusters.
func (cs clusters) EachEngines(f func(*engines.Cluster)) {
	for _, cl := range cs {
		f(cl.metrics)
	}
}

// keepPolicies drops the policies of configurations that are not in force. What is learned is the cluster's, and is
// kept.
func (cl *cluster) keepPolicies(inForce map[*config.Config]bool) {
	size := len(cl.policies)
	maps.DeleteFunc(cl.policies, func(c *config.Config, _ lb.Policy) bool { return !inForce[c] })
	maps.DeleteFunc(cl.caps, func(c *config.Config, _ uint32) bool { return !inForce[c] })
	maps.DeleteFunc(cl.levelsAt, func(c *config.Config, _ time.Duration) bool { return !inForce[c] })
	if len(cl.policies) == size {
		return
	}
	cl.metrics.Keep(inForce)
	cl.tokens, cl.pending = false, false
	for c := range cl.policies {
		cl.pending = cl.pending || c.Push == push.Pending
		if c.Unit == lb.Tokens {
			cl.tokens, cl.guess = true, guessOf(c)
		}
	}
	clear(cl.views) // requests bring those in use
}

// countResponse adds a response that has begun at an endpoint, or removes one that has ended: an endpoint that is
// answering another request is alive.
func (cl *cluster) countResponse(addr string, begun bool) {
	if begun {
		cl.answering[addr]++
		return
	}
	if cl.answering[addr]--; cl.answering[addr] == 0 {
		delete(cl.answering, addr)
	}
}
