package queue_test

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/warmgate/warmgate/e2e/simtime"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/queue"
)

// lab is servers before which requests wait, in simulated time.
type lab struct {
	servers, places int
	cycle           time.Duration // the answers of a server end together, once in a cycle; 0 for each by itself
	visits          []visit       // by time
}

// visit is a request that comes.
type visit struct {
	at, takes time.Duration // its answer, once it is placed
	wait      lb.Wait
	tokens    int64
	patient   bool // it waits for a full server during its patience
}

// fate is what becomes of a visit.
type fate struct {
	refused, late bool
	expected      time.Duration
	placed        time.Duration // when, if neither
}

// rules are how a lab differs from what the queue decides.
type rules struct {
	letIn    map[int]bool // visits that may wait whatever is expected
	leftover bool         // those that are refused are placed as soon as an endpoint is open and nobody waits
}

// play returns what becomes of the visits.
func (b *lab) play(how rules) []fate {
	p := &trial{lab: b, rules: how, q: &queue.Queue{}, loads: loads{}, now: time.Hour}
	p.fates = make([]fate, len(b.visits))
	p.ends = make([][]time.Duration, b.servers)
	for row := range b.servers {
		p.entries = append(p.entries, queue.Entry{Row: row, Cap: int64(b.places)})
	}
	for i := range b.visits {
		p.events.At(time.Hour+b.visits[i].at, func() { p.come(i) })
	}
	p.events.Run(&p.now, simtime.Ever)
	return p.fates
}

type trial struct {
	*lab
	rules
	q       *queue.Queue
	loads   loads
	entries []queue.Entry
	ends    [][]time.Duration
	now     time.Duration
	fates   []fate
	left    []int // refused visits that may be placed
	events  simtime.Events
}

func (p *trial) come(i int) {
	v := &p.visits[i]
	w := v.wait
	w.Since = p.now
	list, _ := p.q.List(7, p.entries)
	t := &queue.Ticket{Owner: 1, ID: lb.LeaseID(i + 1), Wait: &w, Tokens: v.tokens, List: list, Wants: queue.NoRow}
	if v.patient {
		row := p.fullest()
		t.Wants, t.Patience, t.Warm = row, w.Patience, []queue.Warm{{Row: row, Saved: v.tokens - 1}}
	}
	t.Open = p.q.HasOpen(p.now, list, v.tokens, p.loads)
	if t.Open {
		p.q.Add(p.now, t)
		p.dispatch()
		if s, _, _ := p.q.Find(1, t.ID); s != queue.Waiting {
			return
		}
		p.q.Remove(1, t.ID)
		t.Open = p.q.HasOpen(p.now, list, v.tokens, p.loads)
	}
	for _, l := range p.loads {
		t.Inflight += l.Requests
	}
	expected, err := p.q.Admit(p.now, t)
	p.fates[i].expected = expected
	if err != nil && !p.letIn[i] {
		p.fates[i].refused = true
		p.left = append(p.left, i)
		p.useLeft()
		return
	}
	p.q.Add(p.now, t)
	if v.patient {
		p.events.At(p.now+w.Patience, p.dispatch)
	}
	p.events.At(p.now+w.Max+time.Millisecond, func() {
		if s, _, _ := p.q.Find(1, t.ID); s == queue.Waiting {
			p.q.ReadClock(p.now)
			p.q.Remove(1, t.ID)
			p.fates[i].late = true
		}
	})
}

// fullest returns the server with most requests.
func (p *trial) fullest() (row int) {
	for i := range p.servers {
		if p.loads[i].Requests > p.loads[row].Requests {
			row = i
		}
	}
	return row
}

func (p *trial) dispatch() {
	for _, g := range p.q.Dispatch(p.now, p.loads, nil) {
		_, row, _ := p.q.Remove(g.Owner, g.ID)
		p.place(int(g.ID)-1, row)
	}
	p.useLeft()
}

// place places a visit, which the loads count.
func (p *trial) place(i, row int) {
	p.fates[i].placed = p.now
	end := p.now + p.visits[i].takes
	if p.cycle > 0 {
		end = (p.now/p.cycle + 1) * p.cycle
	}
	p.events.At(end, func() {
		l := p.loads[row]
		p.loads[row] = lb.Load{Requests: l.Requests - 1}
		p.dispatch()
	})
}

// useLeft places visits that were refused.
func (p *trial) useLeft() {
	for p.leftover && p.q.Waiting() == 0 && len(p.left) > 0 {
		i := p.left[0]
		if over := time.Hour+p.visits[i].at+p.visits[i].wait.Max < p.now; !over {
			row := slices.IndexFunc(p.entries, func(e queue.Entry) bool { return p.loads[e.Row].Requests < e.Cap })
			if row < 0 {
				return
			}
			p.loads.Add(row, 0)
			p.place(i, row)
		}
		p.left = p.left[1:]
	}
}

// tally counts what the queue has decided.
type tally struct {
	accepted, late  int
	refused, beside int // beside: of those refused, could have been placed in time beside all others
	sampled, alone  int // alone: of the refused ones in a sample, would have been placed in time if let in alone
}

func (b *lab) judge(sample int, of func(*visit) bool) (t tally) {
	fates := b.play(rules{})
	again := b.play(rules{leftover: true})
	var refused []int
	for i, f := range fates {
		if !of(&b.visits[i]) {
			continue
		}
		switch {
		case f.refused:
			t.refused++
			refused = append(refused, i)
			if again[i].placed > 0 {
				t.beside++
			}
		default:
			t.accepted++
			if f.late {
				t.late++
			}
			if again[i].late && !f.late {
				t.beside--
			}
		}
	}
	for k := range min(sample, len(refused)) {
		i := refused[k*len(refused)/min(sample, len(refused))]
		t.sampled++
		if f := b.play(rules{letIn: map[int]bool{i: true}})[i]; f.placed > 0 {
			t.alone++
		}
	}
	return t
}

// comes adds visits that come by chance, n a second for so long.
func (b *lab) comes(r *rand.Rand, from, until time.Duration, n float64, v func() visit) {
	for at := from; ; {
		at += time.Duration(r.ExpFloat64() / n * float64(time.Second))
		if at >= until {
			break
		}
		w := v()
		w.at = at
		b.visits = append(b.visits, w)
	}
	slices.SortStableFunc(b.visits, func(a, b visit) int { return int(a.at - b.at) })
}
