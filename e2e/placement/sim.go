// Package placement simulates clients, a gateway and model servers in simulated time, to study where policies send
// requests: thousands of runs take minutes. The servers are those of enginesim; policies of Warmgate
// are the real ones, over the embedded store.
package placement

import (
	"fmt"
	"slices"
	"time"

	"github.com/warmgate/warmgate/e2e/simtime"
	"github.com/warmgate/warmgate/internal/enginesim"
)

// Request is one that is under way.
type Request struct {
	*Turn
	Session string
	Server  int

	script int
	call   enginesim.Request
	sent   time.Duration
	first  time.Duration
	policy any // what the policy keeps with it
}

// Policy chooses servers.
type Policy interface {
	// Choose calls place with the server for a request, now or after it has waited.
	Choose(now time.Duration, r *Request, place func(now time.Duration, server int))
	// First is called with a request's first token, and Last with its last.
	First(now time.Duration, r *Request)
	Last(now time.Duration, r *Request)
}

// Ticking is a policy that does something every tick of simulated time.
type Ticking interface {
	Tick(now time.Duration)
}

// tick is its period: that of polls for capacity.
const tick = 25 * time.Millisecond

// Maker makes a policy for servers that are all idle.
type Maker func(seed uint64, servers []*enginesim.Engine) Policy

// Result is the outcome of a run.
type Result struct {
	Cached float64       // share of the prompt tokens that were cached
	TTFT   time.Duration // mean time to the first token
	P99    time.Duration
	P90    time.Duration
	Uneven float64       // requests of the busiest server over the mean of all
	Took   time.Duration // until all was done
	Speed  float64       // tokens a second, prompts and answers

	Preempted int // times that a request lost its memory in a server to others, to be computed again
}

// Served is a request that was served, in times of the run.
type Served struct {
	Script, Server         int
	Sent, First, Last      time.Duration
	Prompt, Cached, Answer int // tokens
}

// sim is one run.
type sim struct {
	work    *Workload
	scripts []Script
	servers []*enginesim.Engine
	busy    []bool // a step is under way
	policy  Policy

	now    time.Duration
	events simtime.Events
	queue  []next      // what users of a closed loop do next
	open   map[int]int // turns of a script that are under way or due

	prompt, cached int // tokens
	answered       int // tokens of answers
	served         []Served
	took           time.Duration
	counts         []int
	ttft           []time.Duration
}

// next is a turn that waits for a user.
type next struct {
	script, turn int
	ready        time.Duration
}

// Prepared is a workload with the scripts of one seed.
type Prepared struct {
	*Workload
	Seed    uint64
	scripts []Script
}

// Prepare makes the scripts of one seed.
func (w *Workload) Prepare(seed uint64) *Prepared {
	return &Prepared{w, seed, prepare(w.Scripts(seed), w.Server)}
}

// Capacity returns the load of an open loop at which all that comes is just served, 1 for one that has that pace
// and for a closed one.
func (p *Prepared) Capacity() float64 {
	if p.Full > 0 || p.Paced {
		return 1
	}
	last := p.scripts[len(p.scripts)-1].Due
	return float64(last) / float64(p.Run(0, Exact(4)).Took)
}

// Run plays a workload at a load, relative to what fills the servers. Of an open loop that is the factor by which it is
// faster than its own pace; 0 sends all at once. It panics unless every turn is served: the result of a part of them
// means nothing.
func (p *Prepared) Run(load float64, maker Maker) Result {
	r, _ := p.Play(load, maker)
	return r
}

// Play is Run, and also returns what was served, by its end.
func (p *Prepared) Play(load float64, maker Maker) (Result, []Served) {
	turns := 0
	for i := range p.scripts {
		turns += len(p.scripts[i].Turns)
	}
	s := &sim{work: p.Workload, scripts: p.scripts, open: map[int]int{}}
	for range p.Servers {
		s.servers = append(s.servers, enginesim.New(p.Server.Config, p.Server.Tuning.Times))
		s.busy, s.counts = append(s.busy, false), append(s.counts, 0)
	}
	s.policy = maker(p.Seed, s.servers)
	if p.Full > 0 {
		s.closed(p.users(load))
	} else {
		s.due(load)
	}
	if p, ok := s.policy.(Ticking); ok {
		s.tick(p, turns)
	}
	s.events.Run(&s.now, simtime.Ever)
	if len(s.served) != turns {
		panic(fmt.Sprintf("%s at %g: %d of %d turns were served", p.Name, load, len(s.served), turns))
	}
	return s.result(), s.served
}

// users returns how many users of a closed loop there are at a load.
func (w *Workload) users(load float64) int { return max(1, int(load*float64(w.Full)+0.5)) }

// due begins each script when it is due.
func (s *sim) due(load float64) {
	for i := range s.scripts {
		due := time.Duration(0)
		if load > 0 {
			due = time.Duration(float64(s.scripts[i].Due) / load)
		}
		s.open[i]++
		s.events.At(due, func() { s.send(i, 0) })
	}
}

// apart is the time between the beginnings of two users of a closed loop.
const apart = 20 * time.Millisecond

// closed begins the scripts of so many users.
func (s *sim) closed(users int) {
	for i := range s.scripts {
		s.queue = append(s.queue, next{script: i})
	}
	for i := range users {
		s.events.At(time.Duration(i)*apart, s.advance)
	}
}

// advance plays the next turn of a user.
func (s *sim) advance() {
	if len(s.queue) == 0 {
		return
	}
	n := s.queue[0]
	s.queue = s.queue[1:]
	s.open[n.script]++
	s.events.At(max(s.now, n.ready), func() { s.send(n.script, n.turn) })
}

func (s *sim) send(script, turn int) {
	t := &s.scripts[script].Turns[turn]
	r := &Request{
		Turn: t, Session: s.scripts[script].Session, script: script, sent: s.now,
		call: enginesim.Request{Prompt: slices.Clip(t.prompt), Tokens: t.Answer, Seed: t.seed},
	}
	r.call.Owner = r
	s.policy.Choose(s.now, r, func(now time.Duration, server int) {
		r.Server = server
		s.counts[server]++
		if err := s.servers[server].Add(&r.call, now); err != nil {
			panic(err) // its queue has no limit
		}
		if !s.busy[server] {
			s.step(server)
		}
	})
}

// tick has the policy do what it does every tick, until all turns are served.
func (s *sim) tick(p Ticking, turns int) {
	if len(s.served) == turns {
		return
	}
	p.Tick(s.now)
	s.events.At(s.now+tick, func() { s.tick(p, turns) })
}

// step begins a step of a server, if it has work.
func (s *sim) step(server int) {
	took := s.servers[server].Begin(s.now)
	if s.busy[server] = took > 0; !s.busy[server] {
		return
	}
	s.events.At(s.now+took, func() {
		served := s.servers[server].Finish(s.now)
		for _, c := range served {
			r := c.Owner.(*Request)
			if c.Generated() == 1 {
				s.first(r)
			}
			if c.Done() {
				s.last(r)
			}
		}
		s.step(server)
	})
}

func (s *sim) first(r *Request) {
	r.first = s.now
	s.ttft = append(s.ttft, s.now-r.sent)
	s.prompt += len(r.prompt) / 4
	s.cached += r.call.Cached()
	s.policy.First(s.now, r)
}

func (s *sim) last(r *Request) {
	s.served = append(s.served, Served{
		r.script, r.Server, r.sent, r.first, s.now, len(r.prompt) / 4, r.call.Cached(), r.Answer,
	})
	s.answered += r.Answer
	s.took = s.now
	s.policy.Last(s.now, r)
	turns := s.scripts[r.script].Turns
	s.open[r.script]--
	for i := range turns {
		if turns[i].Parent < 0 || &turns[turns[i].Parent] != r.Turn {
			continue
		}
		if s.work.Rotate {
			s.queue = append(s.queue, next{r.script, i, s.now})
			continue
		}
		s.open[r.script]++
		s.events.At(s.now+turns[i].Think, func() { s.send(r.script, i) })
	}
	if s.work.Full > 0 && s.open[r.script] == 0 {
		s.advance()
	}
}

func (s *sim) result() Result {
	slices.Sort(s.ttft)
	var sum time.Duration
	for _, t := range s.ttft {
		sum += t
	}
	n, preempted := len(s.ttft), 0
	for _, v := range s.servers {
		preempted += int(v.State(s.now).Preemptions)
	}
	return Result{
		Cached: float64(s.cached) / float64(s.prompt), TTFT: sum / time.Duration(n), P99: s.ttft[n-1-n/100],
		P90:    s.ttft[n-1-n/10],
		Uneven: float64(slices.Max(s.counts)*len(s.counts)) / float64(n), Took: s.took,
		Speed: float64(s.prompt+s.answered) / s.took.Seconds(), Preempted: preempted,
	}
}
