package endpoints

import (
	"bytes"
	"strconv"
	"time"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/discovery"
	"github.com/warmgate/warmgate/plugin/process"
)

const (
	// AdminTimeoutMillis is how long the admin interface has for an answer, in milliseconds. Envoy answers in its place
	// with 504 then.
	AdminTimeoutMillis = 2000
	// staleAfter is how long a list of endpoints is trusted after the last good answer, or staleTerms poll intervals if
	// that is longer.
	staleAfter = 10 * time.Second
	staleTerms = 3
	// hungAfter is how much longer it is trusted while the admin interface does not answer at all: it runs in the
	// thread that also learns of new endpoints, and while that one is busy, for example with compiling new code, the
	// list cannot change.
	hungAfter = time.Minute
	// hurryFor is for how long endpoints are looked for at every tick, once a VM has asked for that.
	hurryFor = time.Second
	// hurryShare bounds the cost of that: a page is not requested again before this many times as long has passed as
	// the last one took.
	hurryShare = 10
	// leaderSlack is how much longer than the main thread's VM a worker's VM waits before it starts polling: parsing
	// the answer takes milliseconds that a worker should rather spend on requests.
	leaderSlack = 3 * time.Second
)

// Statuses of pages of the admin interface.
const (
	refused  = "403" // by filters on the way to it
	timedOut = "504" // by Envoy, after AdminTimeoutMillis
)

// TooLong is in the place of the status of a page that was not read because it has more than MaxClustersText bytes.
var TooLong = "more than " + strconv.Itoa(discovery.MaxClustersText>>20) + " MiB"

// adminPoller finds the endpoints of all clusters through Envoy's admin interface. One VM of the process, the leader,
// polls and publishes a digest in shared memory; all read it.
type adminPoller struct {
	kv          lb.KV
	leader      process.Leadership
	serves      bool // this VM serves requests: it is a worker's
	busy        bool // a poll is under way
	requestedAt time.Duration
	interval    time.Duration // as of the last poll
	took        time.Duration // until its answer was taken in
	hurriedAt   time.Duration // when this VM has asked for more polls
	digest      uint32        // version of the digest that views are from
	views       map[string]*lb.View
	last        []byte // the digest published in this VM's present leadership
	subsets     subsets
	breakers    map[string]discovery.Breaker // nil while they are not known
	breakersCAS uint32                       // version of what they are from

	where func() lb.Zone // returns where the gateway is; nil once it was read
	zone  lb.Zone

	problem  string        // with the last answer, "" for none
	loggedAt time.Duration // when it was last logged
}

func newAdminPoller(kv lb.KV, id uint64) *adminPoller {
	return &adminPoller{
		kv: kv, leader: process.Leadership{KV: kv, ID: id, Key: process.KeyLeader, Slack: leaderSlack},
		views: map[string]*lb.View{}, subsets: subsets{kv: kv},
	}
}

// due reports whether this VM should poll now.
func (a *adminPoller) due(now, interval time.Duration) bool {
	if a.busy && now-a.requestedAt < 2*AdminTimeoutMillis*time.Millisecond {
		return false
	}
	if a.requestedAt > 0 && now-a.requestedAt < a.every(now, interval) {
		return false
	}
	leads, taken := a.leader.Lead(now, interval, a.serves)
	if taken {
		a.last, a.subsets.last = nil, nil // another has published since
	}
	if !leads {
		return false
	}
	a.busy, a.requestedAt, a.interval = true, now, interval
	return true
}

// every returns how long after the last poll the next one comes at least.
func (a *adminPoller) every(now, interval time.Duration) time.Duration {
	if now < a.moment(process.KeyHurry) {
		return min(interval, max(process.TickPeriod/2, hurryShare*a.took))
	}
	return interval
}

// hurry has the leader poll at every tick for a while: requests wait for endpoints.
func (a *adminPoller) hurry(now time.Duration) {
	if now-a.hurriedAt < hurryFor/2 && a.hurriedAt > 0 {
		return
	}
	a.hurriedAt = now
	_ = a.setMoment(process.KeyHurry, now+hurryFor) // if it fails, endpoints come at the next poll
}

// received takes an answer of the admin interface. It returns what was wrong with it, "" for nothing.
func (a *adminPoller) received(now time.Duration, body []byte, status string) (problem string) {
	a.busy, a.took = false, now-a.requestedAt
	switch status {
	case "200":
	case timedOut:
		a.extend(now)
		return "the admin interface did not answer in " + strconv.Itoa(AdminTimeoutMillis) + " ms: endpoints " +
			"are not updated"
	default:
		return "the admin interface answered " + strconv.Quote(status) + ": endpoints are not updated"
	}
	// A fleet without endpoints is a valid answer; a page without a single statistic is none.
	if !bytes.Contains(body, []byte("::")) {
		return "the admin interface answered without any cluster: endpoints are not updated"
	}
	clusters, breakers := discovery.ParseClusters(body)
	digest := discovery.AppendDigest(nil, clusters)
	if string(digest) != string(a.last) {
		if err := a.kv.Set(process.KeyDigest, digest, 0); err != nil {
			return "publishing the endpoints: " + err.Error()
		}
		a.last = digest
	}
	// with every answer: that nothing has changed is news, too, to those that know what they have sent since
	if err := a.kv.Set(process.KeyBreakers, discovery.AppendBreakers(nil, breakers), 0); err != nil {
		return "publishing the circuit breakers: " + err.Error()
	}
	if err := a.setMoment(process.KeyFresh, now+a.trustedFor()); err != nil {
		return "publishing the endpoints: " + err.Error()
	}
	return ""
}

// moment reads a time that the leader has published, 0 if it has not.
func (a *adminPoller) moment(key string) time.Duration {
	val, _, err := a.kv.Get(key)
	if err != nil || len(val) != 8 {
		return 0
	}
	return wire.Duration(val, 0)
}

// setMoment publishes a time.
func (a *adminPoller) setMoment(key string, at time.Duration) error {
	return a.kv.Set(key, wire.Writer(nil).Duration(at), 0)
}

// trustedFor is how long a list of endpoints is trusted without another answer.
func (a *adminPoller) trustedFor() time.Duration { return max(staleAfter, staleTerms*a.interval) }

// trusted reports whether the list of endpoints may still be used.
func (a *adminPoller) trusted(now time.Duration) bool {
	return now <= a.moment(process.KeyFresh) || now <= a.moment(process.KeyHung)
}

// extend has a list that is still trusted be trusted for longer, as the admin interface hangs.
func (a *adminPoller) extend(now time.Duration) {
	if !a.trusted(now) {
		return
	}
	until := min(now+a.trustedFor(), a.moment(process.KeyFresh)+hungAfter)
	_ = a.setMoment(process.KeyHung, until) // if it fails, the list is stale at its time
}

// worthLogging reports whether a problem with the last answer, "" for none, is to be logged: one that lasts is logged
// again after LogEvery.
func (a *adminPoller) worthLogging(now time.Duration, problem string) bool {
	if problem == a.problem && now-a.loggedAt < LogEvery {
		return false
	}
	a.problem, a.loggedAt = problem, now
	return problem != ""
}

// view returns what is known of a cluster, for a request. A new VM knows nothing before its first tick unless it reads
// the digest now.
func (a *adminPoller) view(now time.Duration, cluster string) *lb.View {
	if a.digest == 0 {
		a.refresh(now)
	}
	return a.views[cluster]
}

// refresh reads what the leader has published. Views that have not changed stay the same value.
func (a *adminPoller) refresh(now time.Duration) {
	if !a.trusted(now) {
		clear(a.views)
		a.digest, a.breakers, a.breakersCAS = 0, nil, 0
		return
	}
	a.refreshBreakers()
	digest, version, err := a.kv.Get(process.KeyDigest)
	a.subsets.refresh() // no older than the digest: its clusters are looked at before they are published
	if err != nil || version == a.digest {
		return
	}
	clusters, err := discovery.ParseDigest(digest)
	if err != nil {
		return
	}
	if a.where != nil {
		a.zone, a.where = a.where(), nil
	}
	a.digest = version
	for name := range a.views {
		if _, ok := clusters[name]; !ok {
			delete(a.views, name)
		}
	}
	for name, endpoints := range clusters {
		if old := a.views[name]; old == nil || !sameEndpoints(old.Endpoints, endpoints) {
			view := &lb.View{Cluster: name, Endpoints: endpoints, Zone: a.zone}
			view.Follow(now, old)
			a.views[name] = view
		}
	}
}

// refreshBreakers reads what the leader has published of circuit breakers.
func (a *adminPoller) refreshBreakers() {
	raw, version, err := a.kv.Get(process.KeyBreakers)
	if err != nil || version == a.breakersCAS {
		return
	}
	if breakers, err := discovery.ParseBreakers(raw); err == nil {
		a.breakers, a.breakersCAS = breakers, version
	}
}

func sameEndpoints(a, b []lb.Endpoint) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
