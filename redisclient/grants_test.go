package redisclient_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/storetest"
	"github.com/warmgate/warmgate/redisclient"
)

// room is two workers of a gateway that pass on what they grant to each other, and an endpoint that one of them fills.
type room struct {
	t     *testing.T
	a, b  *redisclient.Store
	conns [2]*syncTransport
	plan  *lb.Plan
	news  [][]byte // that was passed to b
	id    lb.LeaseID
}

func newRoom(t *testing.T, server *redisserver.Server) *room {
	t.Helper()
	r := &room{t: t, plan: storetest.Even(storetest.Addrs(2))}
	for i := range r.conns {
		r.conns[i] = dial(t, server)
	}
	r.conns[0].value("FLUSHALL")
	r.conns[0].stopClock(t)
	// The names of owners in Redis differ in length.
	r.a, r.b = newStore(r.conns[0], 1<<43+1, time.Second), newStore(r.conns[1], 2, time.Second)
	r.a.OnGrant = func(owner uint64, news []byte) {
		if owner != 2 {
			t.Errorf("granted to owner %x", owner)
		}
		r.news = append(r.news, news)
		r.b.Hear(time.Hour, news)
	}
	r.b.OnGrant = func(owner uint64, news []byte) {
		if owner != 1<<43+1 {
			t.Errorf("granted to owner %x", owner)
		}
		r.a.Hear(time.Hour, news)
	}
	r.plan.Candidates = slices.Clone(r.plan.Candidates[:1])
	r.plan.Candidates[0].Cap = 1
	r.plan.Wait = lb.Wait{Max: time.Minute, Length: 100, Class: lb.Class{ID: 1, Rank: 1, Weight: 1}}
	r.reserve(r.a).want(t, "granted 0")
	return r
}

func (r *room) reserve(s *redisclient.Store) *result {
	r.id++
	out := &result{}
	p := *r.plan
	s.Reserve(time.Hour, r.id, &p, out.set)
	return out
}

// cap has the endpoint take so many requests by later plans.
func (r *room) cap(n int64) {
	r.plan.Candidates = slices.Clone(r.plan.Candidates)
	r.plan.Candidates[0].Cap = n
}

// What a step of one worker grants, or takes from a request, its owner is told without a command of its own: as is
// this worker of its own requests.
func TestGrantsArePassedOn(t *testing.T) {
	server := redisserver.StartT(t, redisserver.Options{})
	for name, step := range map[string]func(r *room){
		"release": func(r *room) { r.a.Release(time.Hour, 1) },
		"amend":   func(r *room) { r.a.Amend(time.Hour, 1, storetest.Addrs(2)[1], 1) },
		"a reservation with a higher cap": func(r *room) {
			r.cap(2)
			r.reserve(r.a).want(r.t, "waits")
		},
		"a reservation that is placed": func(r *room) {
			r.cap(3)
			r.reserve(r.a).want(r.t, "granted 0")
		},
		"a reservation that is taken back": func(r *room) {
			r.cap(2)
			r.conns[0].fate = func([]byte) int { return notSent }
			r.reserve(r.a)
			r.conns[0].fate = nil
			r.a.Release(time.Hour, r.id)
			r.a.Release(time.Hour, 1)
		},
		"a dead owner": func(r *room) {
			(&backend{conn: r.conns[0]}).Pass(time.Minute)
			_ = r.b.Heartbeat(time.Hour)
		},
	} {
		for _, own := range []bool{false, true} {
			t.Run(name+map[bool]string{false: ", to another", true: ", to itself"}[own], func(t *testing.T) {
				r := newRoom(t, server)
				r.t = t
				waits, conn := r.b, r.conns[1]
				if own {
					waits, conn = r.a, nil
				}
				if name == "a dead owner" {
					waits, conn = r.b, nil // which sends the heartbeat itself
				}
				w := r.reserve(waits)
				w.want(t, "waits")
				before := 0
				if conn != nil {
					before = conn.sent
				}
				step(r)
				w.want(t, "granted 0")
				if conn != nil && conn.sent != before {
					t.Errorf("the owner has sent %d commands", conn.sent-before)
				}
			})
		}
	}
}

// A request that a higher class displaces is told at once.
func TestEvictionsArePassedOn(t *testing.T) {
	r := newRoom(t, redisserver.StartT(t, redisserver.Options{}))
	r.plan.Wait.Length = 2
	r.reserve(r.a)
	lost := r.reserve(r.b)
	r.plan.Wait.Class = lb.Class{ID: 2, Weight: 1}
	higher := r.reserve(r.a)
	higher.want(t, "waits")
	if lost.calls != 1 || !errors.Is(lost.err, lb.ErrEvicted) {
		t.Errorf("answered %d times, %v", lost.calls, lost.err)
	}
}

// What comes late, twice, in parts or from nowhere changes nothing.
func TestHearsNothingNew(t *testing.T) {
	r := newRoom(t, redisserver.StartT(t, redisserver.Options{}))
	first, second := r.reserve(r.b), r.reserve(r.b)
	r.a.Release(time.Hour, 1)
	first.want(t, "granted 0")
	for _, news := range append(r.news, nil, []byte("x"), []byte("\xff\xff\xff"), r.news[0][:20],
		[]byte("\x05other"+strings.Repeat("x", 25))) {
		r.b.Hear(time.Hour, news)
	}
	first.want(t, "granted 0")
	second.want(t, "waits")
	r.b.PollAll(func() time.Duration { return r.b.Poll(time.Hour) }) // which names the first one again
	second.want(t, "waits")
	r.b.Release(time.Hour, 2)
	second.want(t, "granted 0")
	r.b.Release(time.Hour, 3)
	wantInFlight(t, r.conns[0], 0)
}

// The answer to a step that grants nothing has nothing more in it.
func TestAnswersWithoutGrants(t *testing.T) {
	r := newRoom(t, redisserver.StartT(t, redisserver.Options{}))
	elsewhere := *r.plan
	elsewhere.Candidates = storetest.Even(storetest.Addrs(3)).Candidates[2:]
	var answers []string
	r.conns[0].seen = func(reply []byte) {
		if reply[0] == ':' || reply[0] == '*' { // else it is about a script that is to be loaded
			answers = append(answers, string(reply))
		}
	}
	r.a.Reserve(time.Hour, 50, &elsewhere, func(lb.Grant, error) {})
	r.reserve(r.b).want(t, "waits")
	answers = nil
	r.a.Amend(time.Hour, 1, "", 2)
	r.a.Release(time.Hour, 50)
	r.reserve(r.a).want(t, "waits")
	if len(answers) != 3 || answers[0]+answers[1] != ":1\r\n:1\r\n" ||
		!strings.HasPrefix(answers[2], "*3\r\n:-4\r\n") {
		t.Errorf("the answers are %q", answers)
	}
}

// Logs how long it takes from a release until the owner of the waiting request has it: one round trip to Redis. The
// poll of an owner in another gateway comes up to lb.PollPeriod later.
func TestTimeOfAGrant(t *testing.T) {
	r := newRoom(t, redisserver.StartT(t, redisserver.Options{}))
	var took []time.Duration
	for holder := lb.LeaseID(1); holder < 1000; holder += 2 {
		w := r.reserve(r.b)
		w.want(t, "waits")
		began := time.Now()
		r.a.Release(time.Hour, holder)
		took = append(took, time.Since(began))
		w.want(t, "granted 0")
		r.b.Release(time.Hour, r.id)
		r.reserve(r.a).want(t, "granted 0")
	}
	slices.Sort(took)
	t.Logf("from a release to its grant: p50 %v, p99 %v", took[len(took)/2], took[len(took)*99/100])
}
