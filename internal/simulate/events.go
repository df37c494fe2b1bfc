package simulate

import "time"

// kind is what an event is.
type kind uint8

const (
	sends      kind = iota // the load sends a request, by its number
	stepsEnd               // of the engine with the number
	scrape                 // the metrics of a pool's engines are read
	poll                   // requests that wait in the gateway are looked at
	flush                  // the store writes what it has put off
	heartbeat              // of the store
	ask                    // a region asks the others how they are
	calls                  // something that comes later, by its number in run.later
	kindsCount             // how many there are
)

// event is what happens at a time.
type event struct {
	at     time.Duration
	order  uint32 // of events at the same time
	number int32
	kind   kind
}

func (e *event) before(other *event) bool {
	return e.at < other.at || e.at == other.at && e.order < other.order
}

// events is what is to happen: a heap, by hand, because package container/heap takes half of a run's time.
type events struct {
	list  []event
	order uint32
	count [kindsCount]int
}

// add has something happen at a time, behind what was to happen at the same time before.
func (q *events) add(at time.Duration, k kind, number int32) {
	q.order++
	q.count[k]++
	q.list = append(q.list, event{at, q.order, number, k})
	l := q.list
	for i := len(l) - 1; i > 0; {
		up := (i - 1) / 2
		if !l[i].before(&l[up]) {
			break
		}
		l[i], l[up] = l[up], l[i]
		i = up
	}
}

// next returns what happens next, and takes it off the list, which must not be empty.
func (q *events) next() event {
	l := q.list
	first, last := l[0], len(l)-1
	l[0] = l[last]
	l = l[:last]
	q.list = l
	for i := 0; ; {
		least, down := i, 2*i+1
		for k := down; k < min(down+2, len(l)); k++ {
			if l[k].before(&l[least]) {
				least = k
			}
		}
		if least == i {
			break
		}
		l[i], l[least] = l[least], l[i]
		i = least
	}
	q.count[first.kind]--
	return first
}
