package clusters

import (
	"errors"
	"maps"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/cache"
	lbengines "github.com/warmgate/warmgate/lb/engines"
	"github.com/warmgate/warmgate/lb/gains"
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

// Known is the part of a VM that keeps what is known of each cluster, by name.
type Known map[string]*Cluster

// Cluster is what one VM knows of a cluster.
type Cluster struct {
	Name     string
	UsedAt   time.Duration
	Views    map[uint64]*lb.View // the latest of each source
	Policies map[*config.Config]lb.Policy
	Latest   *config.Config // by which it was used last, nil when that is no longer in force

	Health  *health.Health
	Facts   *models.Facts
	Asked   Asked
	Caches  *cache.Tracker
	Engines *lbengines.Samples
	Shares  *policy.RequestShares
	Limits  *push.Limits
	// limits of targets that were set at run time
	Overrides lb.Overrides
	// of clusters, where this stands for several
	latencies *policy.Latencies

	Tokens  bool            // a configuration in force counts tokens
	Pending bool            // one goes by push limits
	Guess   learned.Guess   // of that configuration
	Samples learned.Samples // whose answers are read with unit: tokens, by the class of the client's limit

	Ends       learned.Sample           // whose streams are read to their ends
	suspects   map[string]time.Duration // endpoints all of whose streams are, until when
	Terminates bool                     // a stream had what ends one in its API
	Outputs    uint32                   // a bit for each API of which an answer had output
	Announces  learned.Announcements    // what the first events of APIs are that are not known
	Calls      learned.Calls            // what calls are that no table lists

	Inflight  int            // requests of this VM
	Waiting   int            // of those, that wait in the queue of the local store
	Answering map[string]int // of those, by endpoint, whose response has begun

	Queue   Queue // for requests that wait
	Retries RetryBudget
	Answers learned.AnswerTimes
	CapsAt  time.Duration             // when a waiting request brought the latest caps to the queue
	noneIn  *lb.View                  // by which the gateway last had no endpoint for a request
	noneAt  time.Duration             // when that was
	caps    map[*config.Config]uint32 // digests of what the caps follow from

	Prompts PromptStats      // for prefix_cache
	Flights *gains.Recorder  // what happens to its requests, for what is gained
	Metrics *engines.Cluster // of its engines, and lists of their models
	Shown   *stats.Cluster   // statistics, nil before the first are set
	// LevelsAt is when Redis was asked what is left of budgets.
	LevelsAt map[*config.Config]time.Duration
}

// ErrTooMany reports that too many clusters are in use.
var ErrTooMany = errors.New("clusters: too many are in use")

// Get returns what is known of the cluster, with the policy of the configuration.
func (cs Known) Get(now time.Duration, name string, c *config.Config) (*Cluster, lb.Policy, error) {
	cl := cs[name]
	if cl == nil {
		if len(cs) >= endpoints.MaxClusters {
			return nil, nil, ErrTooMany
		}
		cl = &Cluster{
			Name: name, Views: map[uint64]*lb.View{}, Policies: map[*config.Config]lb.Policy{},
			Health: health.New(), Facts: models.NewFacts(), Asked: Asked{}, Caches: cache.NewTracker(),
			Engines: lbengines.New(),
			Shares:  policy.NewRequestShares(), latencies: policy.NewLatencies(), caps: map[*config.Config]uint32{},
			Answering: map[string]int{}, LevelsAt: map[*config.Config]time.Duration{},
			suspects: map[string]time.Duration{}, Flights: gains.NewRecorder(),
		}
		cl.Limits = push.New(cl.Engines)
		cl.Engines.OnLoss = cl.Caches.Lose
		cl.Metrics = engines.NewCluster(name, cl.Engines, cl.Facts, cl.Views)
		cs[name] = cl
	}
	cl.UsedAt = now
	if c.Unit == lb.Tokens {
		cl.Tokens, cl.Guess = true, GuessOf(c)
	}
	cl.Pending = cl.Pending || c.Push == push.Pending
	p := cl.Policies[c]
	if p == nil {
		var err error
		if p, err = policy.New(c.Policy, configOf(c, cl)); err != nil {
			return nil, nil, err
		}
		cl.Policies[c] = p
	}
	cl.Latest = c
	return cl, p, nil
}

// EnginesOf implements engines.Clusters.
func (cs Known) EnginesOf(name string) *engines.Cluster {
	if cl := cs[name]; cl != nil {
		return cl.Metrics
	}
	return nil
}

// EachEngines implements engines.Clusters.
func (cs Known) EachEngines(f func(*engines.Cluster)) {
	for _, cl := range cs {
		f(cl.Metrics)
	}
}

// KeepPolicies drops the policies of configurations that are not in force. What is learned is the cluster's, and is
// kept.
func (cl *Cluster) KeepPolicies(inForce map[*config.Config]bool) {
	size := len(cl.Policies)
	maps.DeleteFunc(cl.Policies, func(c *config.Config, _ lb.Policy) bool { return !inForce[c] })
	maps.DeleteFunc(cl.caps, func(c *config.Config, _ uint32) bool { return !inForce[c] })
	maps.DeleteFunc(cl.LevelsAt, func(c *config.Config, _ time.Duration) bool { return !inForce[c] })
	if len(cl.Policies) == size {
		return
	}
	if !inForce[cl.Latest] {
		cl.Latest = nil
	}
	cl.Metrics.Keep(inForce)
	cl.Tokens, cl.Pending = false, false
	for c := range cl.Policies {
		cl.Pending = cl.Pending || c.Push == push.Pending
		if c.Unit == lb.Tokens {
			cl.Tokens, cl.Guess = true, GuessOf(c)
		}
	}
	clear(cl.Views) // requests bring those in use
}

// outdatedFor is how long a view is taken to be outdated by which the gateway had no endpoint for a request.
const outdatedFor = 2 * time.Second

// NoteNone notes that the gateway had no endpoint for a request that was planned by the view.
func (cl *Cluster) NoteNone(now time.Duration, view *lb.View) { cl.noneIn, cl.noneAt = view, now }

// IsOutdated reports whether the gateway has no endpoint any more, though the view has, where requests wait for the
// first one.
func (cl *Cluster) IsOutdated(now time.Duration, view *lb.View, c *config.Config) bool {
	return c.WaitsFromZero() && view == cl.noneIn && now-cl.noneAt < outdatedFor
}

// CountResponse adds a response that has begun at an endpoint, or removes one that has ended: an endpoint that is
// answering another request is alive.
func (cl *Cluster) CountResponse(addr string, begun bool) {
	if begun {
		cl.Answering[addr]++
		return
	}
	if cl.Answering[addr]--; cl.Answering[addr] == 0 {
		delete(cl.Answering, addr)
	}
}
