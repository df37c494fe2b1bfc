package placement

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/simtime"
	"github.com/warmgate/warmgate/internal/enginesim"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/engines"
	"github.com/warmgate/warmgate/lb/health"
	"github.com/warmgate/warmgate/lb/policy"
	"github.com/warmgate/warmgate/lb/push"
	"github.com/warmgate/warmgate/lb/storetest"
	"github.com/warmgate/warmgate/metrics"
)

// pushLab is servers without end of requests for them, and workers of a gateway that learn how many to push.
type pushLab struct {
	slots    []int
	workers  int
	streamed bool
	lengths  loadgen.Lengths // of answers in tokens
	seed     uint64
	blind    func(now time.Duration, server int) bool // its metrics do not come; nil: nobody has metrics

	now     time.Duration
	random  *rand.Rand
	servers []*labServer
	gates   []labGate
	memory  *storetest.Memory // of all gates
	events  simtime.Events
}

// labServer is a server, and what it has been doing since the last report.
type labServer struct {
	*enginesim.Engine
	cap      lb.Candidate
	inflight int
	busy     bool

	sum, ticks float64 // of requests in flight, and their number
	most, done int
	fullAt     time.Duration // when most of its slots were first in use
}

// labGate is what one worker knows.
type labGate struct {
	engines *engines.Samples
	limits  *push.Limits
}

// gatePeriod is the time between two ticks of a worker.
const gatePeriod = 100 * time.Millisecond

type labJob struct {
	enginesim.Request
	gate     *labGate
	placed   time.Duration
	inflight int64
}

// labPrompts are the lengths of prompts in tokens, of chats with and without long texts.
var labPrompts = loadgen.LogNormal{Median: 200, Sigma: 1, Min: 4, Max: 4000}

func (l *pushLab) start() *pushLab {
	l.memory = storetest.NewMemory()
	l.now, l.random = time.Hour, rand.New(rand.NewPCG(l.seed, 12))
	for i, n := range l.slots {
		c := enginesim.Config{MaxNumSeqs: n, MaxQueued: -1, NumBlocks: 1 << 20}
		l.servers = append(l.servers, &labServer{
			Engine: enginesim.New(c, enginesim.Times{}),
			cap:    lb.Candidate{Addr: fmt.Sprintf("10.0.0.%d:8000", i+1), Weight: 1},
		})
	}
	for range l.workers {
		g := labGate{engines: engines.New()}
		g.limits = push.New(g.engines)
		_, err := policy.New("global_least_request", policy.Config{
			Push: push.Pending, Limits: g.limits, Engines: g.engines, Health: health.New(),
			Engine: engines.Config{StaleAfter: 3 * scrapePeriod},
		})
		if err != nil {
			panic(err)
		}
		l.gates = append(l.gates, g)
	}
	l.tick()
	return l
}

// run lets time pass, and forgets what servers did before.
func (l *pushLab) run(d time.Duration) {
	for _, s := range l.servers {
		s.sum, s.ticks, s.most, s.done = 0, 0, 0, 0
	}
	l.events.Run(&l.now, l.now+d)
}

func (l *pushLab) tick() {
	if l.blind != nil && l.now%scrapePeriod == 0 {
		l.scrape()
	}
	if l.now%gatePeriod == 0 {
		for _, g := range l.gates {
			g.limits.Exchange(l.now, l.memory, "limits")
		}
	}
	l.dispatch()
	for i, s := range l.servers {
		s.sum, s.ticks, s.most = s.sum+float64(s.inflight), s.ticks+1, max(s.most, s.inflight)
		if s.fullAt == 0 && 4*s.inflight >= 3*l.slots[i] {
			s.fullAt = l.now
		}
	}
	l.events.At(l.now+tick, l.tick)
}

func (l *pushLab) scrape() {
	parser, err := metrics.New(metrics.AnyEngine)
	if err != nil {
		panic(err)
	}
	for _, g := range l.gates {
		samples := map[string]engines.Sample{}
		for i, s := range l.servers {
			if l.blind(l.now, i) {
				continue
			}
			st := s.Gauges()
			sample := engines.Sample{At: l.now, ScrapedAt: l.now, FreshAt: l.now, Counted: true}
			sample.Inflight.Requests = int64(s.inflight)
			parser.Parse(fmt.Appendf(nil, "vllm:num_requests_running %d\nvllm:num_requests_waiting %d\n",
				st.Running, st.Waiting), &sample.Snapshot)
			samples[s.cap.Addr] = sample
		}
		g.engines.Update(l.now, nil, samples)
	}
}

// dispatch places requests, each where the smallest part of the limit is used. The limits that hold are those of the
// worker that has asked last, which is any.
func (l *pushLab) dispatch() {
	var list []lb.Candidate
	for _, s := range l.servers {
		list = append(list, s.cap)
	}
	list = l.gates[l.random.IntN(len(l.gates))].limits.Apply(l.now, lb.NewList(list), 0).Candidates
	for {
		best, least := -1, 1.0
		for i, s := range l.servers {
			if used := float64(s.inflight) / float64(list[i].Cap); used < least {
				best, least = i, used
			}
		}
		if best < 0 {
			return
		}
		l.place(l.servers[best])
	}
}

func (l *pushLab) place(s *labServer) {
	s.inflight++
	j := &labJob{gate: &l.gates[l.random.IntN(len(l.gates))], placed: l.now, inflight: int64(s.inflight)}
	j.Tokens, j.Seed = l.lengths.Draw(l.random), l.random.Uint64()
	j.Prompt = fmt.Appendf(nil, "%0*d", 4*labPrompts.Draw(l.random), j.Seed) // that no other one begins like
	copy(j.Prompt, fmt.Sprintf("%020d", j.Seed))
	j.Owner = j
	if err := s.Add(&j.Request, l.now); err != nil {
		panic(err) // its queue has no limit
	}
	if !s.busy {
		l.step(s)
	}
}

func (l *pushLab) step(s *labServer) {
	took := s.Begin(l.now)
	if s.busy = took > 0; !s.busy {
		return
	}
	l.events.At(l.now+took, func() {
		for _, r := range s.Finish(l.now) {
			if r.Generated() == 1 && l.streamed {
				l.observe(s, r.Owner.(*labJob), true)
			}
			if r.Done() {
				l.observe(s, r.Owner.(*labJob), false)
				s.inflight--
				s.done++
			}
		}
		l.dispatch()
		l.step(s)
	})
}

// observe tells a worker of an answer, at the time of its tick.
func (l *pushLab) observe(s *labServer, j *labJob, begun bool) {
	j.gate.limits.Observe(l.now.Truncate(gatePeriod), push.Answer{
		Addr: s.cap.Addr, PlacedAt: j.placed.Truncate(gatePeriod), Inflight: j.inflight,
		Begun: begun, Streamed: l.streamed && !begun, Bytes: 300 + 4*j.Tokens,
	})
}

// mixedLengths are those of any kind of task: most short, some long.
type mixedLengths struct{}

func (mixedLengths) Draw(r *rand.Rand) int {
	if r.IntN(10) == 0 {
		return 400
	}
	return 10 + r.IntN(20)
}

// equalLengths are those of answers that are cut off.
type equalLengths int

func (n equalLengths) Draw(*rand.Rand) int { return int(n) }

// eachLab calls f with kinds of answers and numbers of workers.
func eachLab(t *testing.T, f func(t *testing.T, l pushLab)) {
	chats := loadgen.LogNormal{Median: 67, Sigma: 0.9, Min: 4, Max: 640}
	for name, l := range map[string]pushLab{
		"streamed":             {lengths: chats, workers: 1, streamed: true},
		"streamed, 4 workers":  {lengths: chats, workers: 4, streamed: true},
		"whole":                {lengths: chats, workers: 1},
		"whole, 4 workers":     {lengths: chats, workers: 4},
		"whole, mixed lengths": {lengths: mixedLengths{}, workers: 2},
		"whole, equal lengths": {lengths: equalLengths(100), workers: 2},
	} {
		t.Run(name, func(t *testing.T) {
			l.seed = 1
			f(t, l)
		})
	}
}

// fills returns how much of its slots each server has used since the last call of run, in the mean and at most.
func (l *pushLab) fills() (mean, most []float64) {
	for i, s := range l.servers {
		n := float64(l.slots[i])
		mean, most = append(mean, s.sum/s.ticks/n), append(most, float64(s.most)/n)
	}
	return mean, most
}

// done returns how many answers there have been since the last call of run.
func (l *pushLab) done() (n int) {
	for _, s := range l.servers {
		n += s.done
	}
	return n
}
