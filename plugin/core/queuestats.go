package core

import (
	"math"
	"slices"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
)

// queueUse is what a VM knows of the queue of a cluster.
type queueUse struct {
	config     *config.Config // under which a request came last, nil for none yet
	store      lb.Store       // of that request
	redis      *redisStore    // if that is one in Redis
	candidates []lb.Candidate // of that request
	tokens     int64          // that it adds where nothing of its prompt is cached
	waiting    int            // requests in the queue, over all owners, at the latest heartbeat
	refusedAt  time.Duration  // when one was refused last
	pressure   pressure
	classes    map[string]uint16  // ids of those that have a gauge, by name
	inflight   map[string]lb.Load // in Redis, by endpoint, as far as asked
	askedAt    time.Duration      // when that was
}

// usesQueue notes that a request of the cluster may wait.
func (s *Stream) usesQueue() {
	q, l := &s.cluster.queue, &s.lease
	q.config, q.store, q.redis, q.candidates = s.cfg, l.store, l.redis, l.reservation.plan.Candidates
	q.tokens = l.reservation.plan.AddedTokens(0)
}

// overloaded reports whether requests wait in the cluster, or were refused lately.
func (cl *cluster) overloaded(now time.Duration) bool {
	refused := cl.queue.refusedAt > 0 && now-cl.queue.refusedAt < retrySeconds*time.Second
	return refused || cl.waiting > 0 || cl.queue.waiting > 0
}

// answerTimes is how long the latest answers of a cluster took.
type answerTimes struct {
	times [64]time.Duration
	sum   time.Duration
	count int // of all so far
}

func (a *answerTimes) add(d time.Duration) {
	at := &a.times[a.count%len(a.times)]
	a.sum += d - *at
	*at = d
	a.count++
}

// mean returns the mean, 0 before the first answer.
func (a *answerTimes) mean() time.Duration {
	return a.sum / time.Duration(max(1, min(a.count, len(a.times))))
}

// Backpressure is half how long requests wait and half how many are refused, over a minute.
const (
	pressureSlots = 6
	pressureSlot  = 10 * time.Second
	// leastWait and mostWait are waits that do not matter, and that are as bad as longer ones.
	leastWait = 25 * time.Millisecond
	mostWait  = time.Second
	// waitSteps is how many parts the time between them is divided into.
	waitSteps = 39
)

// pressure counts the requests of a cluster with a queue by how long they have waited.
type pressure [pressureSlots]tally

// tally is the requests of one part of that minute.
type tally struct {
	period  int64
	waits   [waitSteps + 2]uint32 // those that waited for leastWait at most, by steps, and for longer than mostWait
	placed  uint32
	refused uint32
}

// add counts a request that has waited, or was refused.
func (p *pressure) add(now, waited time.Duration, refused bool) {
	period := int64(now / pressureSlot)
	s := &p[period%pressureSlots]
	if s.period != period {
		*s = tally{period: period}
	}
	if refused {
		s.refused++
		return
	}
	s.placed++
	step := 0
	if waited > leastWait {
		step = min(1+int((waited-leastWait)*waitSteps/(mostWait-leastWait)), waitSteps+1)
	}
	s.waits[step]++
}

// share returns the backpressure, from 0 to 1.
func (p *pressure) share(now time.Duration) float64 {
	var waits [waitSteps + 2]uint32
	placed, refused := uint32(0), uint32(0)
	for i := range p {
		s := &p[i]
		if int64(now/pressureSlot)-s.period >= pressureSlots {
			continue
		}
		placed += s.placed
		refused += s.refused
		for step, n := range s.waits {
			waits[step] += n
		}
	}
	if placed+refused == 0 {
		return 0
	}
	longest := 0 // 95 % have waited for no longer than this step
	for seen := waits[0]; float64(seen) < 0.95*float64(placed); seen += waits[longest] {
		longest++
	}
	return 0.5*min(float64(longest)/waitSteps, 1) + 0.5*float64(refused)/float64(placed+refused)
}

// queueLabels returns the labels of a statistic of the queue.
func queueLabels(cl *cluster, class string) string { return ";cluster=" + cl.name + ";class=" + class }

// countWaited counts a request that was placed.
func (s *Stream) countWaited() {
	w, cl := &s.wait, s.cluster
	if w.class == nil {
		return
	}
	cl.queue.pressure.add(s.plugin.vm.now(), w.waited, false)
	if w.queued {
		s.plugin.vm.stats.recordIf(statQueueWait+queueLabels(cl, w.class.Name), uint64(w.waited.Milliseconds()))
	}
}

// countRefused counts a request that was refused.
func (s *Stream) countRefused(why lb.Reason) {
	w, cl, now := &s.wait, s.cluster, s.plugin.vm.now()
	if w.class == nil {
		return
	}
	cl.queue.refusedAt = now
	cl.queue.pressure.add(now, 0, true)
	cl.retries.failed(now, w.id)
	s.plugin.vm.stats.countIf(statRefusals+queueLabels(cl, w.class.Name)+";reason="+why.String(), 1)
}

// leftQueue counts a request that is over while it waits: its client has left, or the gateway has answered.
func (s *Stream) leftQueue() {
	w, cl, now := &s.wait, s.cluster, s.lease.now()
	w.queued, w.waited = true, now-w.since
	cl.queue.pressure.add(now, w.waited, false)
	cl.retries.failed(now, w.id)
	s.plugin.vm.stats.countIf(statLeft+queueLabels(cl, w.class.Name), 1)
}

// answerEnded takes over how long the answer took, or that there was none.
func (s *Stream) answerEnded(now time.Duration, verdict lb.Verdict) {
	switch {
	case s.wait.class == nil:
	case verdict == lb.Success:
		s.cluster.answers.add(now - s.placedAt())
	case !s.response.complete:
		s.cluster.retries.failed(now, s.wait.id)
	}
}

// setQueue sets the gauges of a cluster's queue.
func (g *gauges) setQueue(now time.Duration, cl *cluster) {
	q := &cl.queue
	if q.config == nil {
		return
	}
	stats := q.store.Queue(now, cl.name)
	q.waiting = stats.Waiting
	if q.waiting == 0 && !g.configs.use(q.config) {
		g.clearQueue(cl)
		q.config, q.classes = nil, nil
		return
	}
	q.showClasses(cl)
	for name, id := range q.classes {
		g.stats.setIf(statQueue+queueLabels(cl, name), uint64(stats.ByClass[id]))
	}
	share := q.pressure.share(now)
	g.stats.setIf(statPressure+";cluster="+cl.name, uint64(math.Round(100*share)))
	if n, ok := g.parallelism(cl, share); ok {
		g.stats.setIf(statParallelism+";cluster="+cl.name, n)
	}
}

// showClasses adds the classes of all configurations of the cluster to those that have a gauge. Their gauges stay while
// a configuration with a queue is in force.
func (q *queueUse) showClasses(cl *cluster) {
	if q.classes == nil {
		q.classes = map[string]uint16{}
	}
	for c := range cl.policies {
		if !c.Queue.Enabled() {
			continue
		}
		for i := range c.Queue.Classes {
			q.classes[c.Queue.Classes[i].Name] = c.Queue.Classes[i].ID
		}
	}
}

// parallelism returns how many requests clients should have in flight: as many as there are, and a part of those for
// which there is room, the less the more backpressure there is. It is not known where there is no cap.
func (g *gauges) parallelism(cl *cluster, backpressure float64) (n uint64, known bool) {
	q := &cl.queue
	if !q.hasCaps() {
		return 0, false
	}
	loads, known := g.loadsOf(cl)
	if !known {
		return 0, false
	}
	inflight, tokens, room := int64(0), int64(0), int64(0)
	for _, l := range loads {
		inflight, tokens = inflight+l.Requests, tokens+l.Tokens
	}
	mean := float64(max(1, q.tokens))
	if inflight > 0 {
		mean = max(1, float64(tokens)/float64(inflight))
	}
	for i, l := range loads {
		room += roomFor(&q.candidates[i], l, mean)
	}
	return uint64(inflight) + uint64(float64(room)*(1-backpressure)), true
}

// hasCaps reports whether every endpoint has a cap.
func (q *queueUse) hasCaps() bool {
	return len(q.candidates) > 0 && !slices.ContainsFunc(q.candidates, func(c lb.Candidate) bool {
		return c.Cap == 0 && c.TokenCap == 0
	})
}

// addrs returns the addresses of the endpoints.
func (q *queueUse) addrs() []string {
	addrs := make([]string, len(q.candidates))
	for i := range q.candidates {
		addrs[i] = q.candidates[i].Addr
	}
	return addrs
}

// loadsOf returns what is in flight at each endpoint of the queue, over all owners.
func (g *gauges) loadsOf(cl *cluster) (loads []lb.Load, known bool) {
	q := &cl.queue
	if q.redis == nil {
		loads, err := g.stores.local.Loads(cl.name, q.addrs(), nil)
		return loads, err == nil
	}
	for _, addr := range q.addrs() {
		l, known := q.inflight[addr]
		if !known {
			return nil, false
		}
		loads = append(loads, l)
	}
	return loads, true
}

// askRedis asks what is in flight in one of the clusters whose requests wait in Redis, for the next time that gauges
// are set: the clusters take turns, because there may be many of them.
func (g *gauges) askRedis(now time.Duration) {
	var next *cluster
	for _, cl := range g.clusters {
		if q := &cl.queue; q.config != nil && q.redis != nil && q.redis.remote.Ready(now) && q.hasCaps() &&
			(next == nil || q.askedAt < next.queue.askedAt) {
			next = cl
		}
	}
	if next == nil {
		return
	}
	q := &next.queue
	addrs := q.addrs()
	q.askedAt = now
	q.redis.remote.Loads(now, next.name, addrs, func(loads []lb.Load, err error) {
		if err != nil {
			return
		}
		q.inflight = make(map[string]lb.Load, len(addrs))
		for i, addr := range addrs {
			q.inflight[addr] = loads[i]
		}
	})
}

// roomFor returns how many more requests of so many tokens a candidate takes that has a cap.
func roomFor(c *lb.Candidate, l lb.Load, tokens float64) int64 {
	room := int64(math.MaxInt64)
	if c.Cap > 0 {
		room = max(0, c.Cap-l.Requests)
	}
	if c.TokenCap > 0 {
		room = min(room, int64(math.Ceil(float64(max(0, c.TokenCap-l.Tokens))/tokens)))
	}
	return room
}

// clearQueue sets the gauges of the queue of a cluster that is about to be forgotten.
func (g *gauges) clearQueue(cl *cluster) {
	names := []string{statPressure + ";cluster=" + cl.name, statParallelism + ";cluster=" + cl.name}
	for class := range cl.queue.classes {
		names = append(names, statQueue+queueLabels(cl, class))
	}
	for _, name := range names {
		if g.stats.has(name) {
			g.stats.set(name, 0)
		}
	}
}
