package gains

import (
	"math"
	"time"

	"github.com/warmgate/warmgate/internal/wire"
)

const (
	// settles is how long after an event all VMs have reported theirs.
	settles = 2500 * time.Millisecond
	// silence is how long a VM with requests may report nothing until it counts as gone.
	silence = 10 * time.Second
	// maxClusters bounds the clusters, and maxFeeds the VMs that report on one.
	maxClusters = 32
	maxFeeds    = 512
	// maxPending bounds the events of a VM that have not settled.
	maxPending = 8 * maxEvents
	// relearn is how often a speed is learned.
	relearn = 10 * time.Second
	// forgetAfter is after which time that is done without new streams: what was learned is less sure then.
	forgetAfter = 10 * time.Minute
	// pause is for how long a cluster is left alone of which there was too much.
	pause = time.Minute
	// idleCluster is how long a cluster is kept on which no VM reports.
	idleCluster = 10 * time.Minute
)

// Ledger is what is known of all clusters, from the batches of all VMs.
type Ledger struct {
	Clusters map[string]*Cluster // by name
	seed     uint64
}

// Cluster is what is known of one.
type Cluster struct {
	Policy string // in force
	Worlds *Worlds
	Models map[string]*Model // by label

	feeds    map[uint64]*feed
	arranger *feed // whose list of endpoints counts
	list     []Place
	lost     bool // there was too much, or something is missing
	unused   bool // it is forgotten the next time: until then it shows that nothing is known
	heard    time.Duration
	pausedTo time.Duration
}

// Model is what is known of a model in a cluster.
type Model struct {
	Speed
	cached int64         // tokens that are not in saved yet
	saved  float64       // milliseconds of prefill
	fresh  bool          // there are new streams
	asOf   time.Duration // when the speed was learned
}

// Take returns how many milliseconds of prefill were saved since the last call. What is left of one is kept.
func (m *Model) Take() uint64 {
	whole := math.Floor(m.saved)
	m.saved -= whole
	return uint64(whole)
}

// feed is what a VM reports of a cluster.
type feed struct {
	number  uint32 // of its last batch
	heard   time.Duration
	events  []event // that are not looked at yet; places are those of the worlds, one more
	flights []*Flight
}

// NewLedger returns an empty ledger.
func NewLedger(seed uint64) *Ledger { return &Ledger{Clusters: map[string]*Cluster{}, seed: seed} }

// Read takes over the batches of a log. What is damaged is left out, with all behind it.
func (l *Ledger) Read(now time.Duration, log []byte) {
	for r := wire.NewReader(log); r.Len() > 4; {
		length := int(r.Uint32()) - 4
		batch := r.Take(length)
		if !r.OK() || !l.readBatch(now, batch) {
			return
		}
	}
}

func (l *Ledger) readBatch(now time.Duration, batch []byte) bool {
	r := wire.NewReader(batch)
	vm, number := r.Uint64(), r.Uint32()
	cluster, policy := string(r.Text()), string(r.Text())
	if !r.OK() {
		return false
	}
	c := l.cluster(now, cluster)
	if c == nil {
		return true
	}
	f := c.feedOf(now, vm, number)
	if f == nil {
		return true
	}
	c.Policy = policy
	c.readEvents(&r, f, c.readPlaces(now, &r, f))
	c.readModels(&r)
	return r.OK()
}

func (l *Ledger) cluster(now time.Duration, name string) *Cluster {
	c := l.Clusters[name]
	if c == nil {
		if len(l.Clusters) >= maxClusters {
			return nil
		}
		l.seed++
		c = &Cluster{Worlds: NewWorlds(l.seed), Models: map[string]*Model{}, feeds: map[uint64]*feed{}}
		l.Clusters[name] = c
	}
	c.heard, c.unused = now, false
	return c
}

// feedOf returns the feed of a VM, nil if there are too many. When a batch is missing it is not known what has become
// of the requests of this VM.
func (c *Cluster) feedOf(now time.Duration, vm uint64, number uint32) *feed {
	f := c.feeds[vm]
	if f == nil {
		if len(c.feeds) >= maxFeeds {
			return nil
		}
		f = &feed{}
		c.feeds[vm] = f
	} else if number != f.number+1 {
		c.lost = true
	}
	f.number, f.heard = number, now
	return f
}

// readPlaces reads the endpoints, and returns their places.
func (c *Cluster) readPlaces(now time.Duration, r *wire.Reader[[]byte], f *feed) (places []int32) {
	n := r.Count(2)
	if c.arranger == nil || now-c.arranger.heard > settles {
		c.arranger = f
	}
	list := make([]Place, 0, n)
	for range n {
		p := Place{string(r.Text()), int(min(r.Uvarint(), math.MaxInt32))}
		list = append(list, p)
	}
	if !r.OK() {
		return nil
	}
	if c.arranger == f {
		c.list = list
	}
	for i := range list {
		places = append(places, c.Worlds.PlaceOf(list[i].Addr)+1)
	}
	return places
}

func (c *Cluster) readEvents(r *wire.Reader[[]byte], f *feed, places []int32) {
	at := r.Duration()
	for range r.Count(3) {
		e := event{kind: kind(r.Byte())}
		at += time.Duration(min(r.Uvarint(), math.MaxInt32)) * time.Microsecond
		e.at, e.of = at, ID(r.Uvarint())
		if e.kind == sent {
			if p := r.Uvarint(); p > 0 && p <= uint64(len(places)) {
				e.place = places[p-1]
			}
		}
		if e.kind >= kinds || e.of > maxOpen {
			r.Fail()
		}
		c.lost = c.lost || len(f.events) >= maxPending
		if !r.OK() || c.lost {
			return
		}
		f.events = append(f.events, e)
	}
}

func (c *Cluster) readModels(r *wire.Reader[[]byte]) {
	for range r.Count(1 + 8*4) {
		m := c.model(string(r.Text()))
		p := Prefill{r.Duration(), r.Float64(), r.Float64(), r.Float64()}
		if r.OK() && m != nil {
			m.Add(p)
			m.fresh = true
		}
	}
	for range r.Count(2) {
		m, n := c.model(string(r.Text())), r.Uvarint()
		if r.OK() && m != nil {
			m.cached += int64(min(n, 1<<40))
		}
	}
}

func (c *Cluster) model(label string) *Model {
	m := c.Models[label]
	if m == nil && len(c.Models) < maxModels {
		m = &Model{}
		c.Models[label] = m
	}
	return m
}

// Advance does what has come due.
func (l *Ledger) Advance(now time.Duration) {
	for name, c := range l.Clusters {
		if now-c.heard > idleCluster {
			if c.unused {
				delete(l.Clusters, name)
				continue
			}
			c.unused = true
			clear(c.feeds)
			for _, m := range c.Models {
				m.Speed, m.fresh = Speed{}, false
			}
		}
		c.play(now-settles, now < c.pausedTo)
		c.Worlds.Arrange(now-settles, c.list)
		c.forget(now)
		if c.lost || c.Worlds.Lost() {
			l.beginAnew(now, c)
		}
	}
	l.learn(now)
}

// beginAnew has the worlds of a cluster begin anew, after a pause.
func (l *Ledger) beginAnew(now time.Duration, c *Cluster) {
	l.seed++
	c.Worlds, c.arranger, c.list, c.lost, c.pausedTo = NewWorlds(l.seed), nil, nil, false, now+pause
	clear(c.feeds)
}

// play has everything happen that has happened up to a time, in the order of the times. In a pause nothing does.
func (c *Cluster) play(to time.Duration, pause bool) {
	next := make([]*feed, 0, len(c.feeds))
	for _, f := range c.feeds {
		if len(f.events) > 0 {
			next = append(next, f)
		}
	}
	read := make([]int, len(next))
	for {
		first := -1
		for i, f := range next {
			if read[i] == len(f.events) {
				continue
			}
			if first < 0 || f.events[read[i]].before(&next[first].events[read[first]]) {
				first = i
			}
		}
		if first < 0 || next[first].events[read[first]].at > to {
			break
		}
		if e := &next[first].events[read[first]]; !pause {
			next[first].happens(e, c.Worlds)
		}
		read[first]++
	}
	for i, f := range next {
		f.events = f.events[:copy(f.events, f.events[read[i]:])]
	}
}

// before reports whether an event comes before that of another VM: of two at the same time, what frees a slot.
func (e *event) before(other *event) bool {
	return e.at < other.at || e.at == other.at && e.kind == over && other.kind != over
}

// happens has an event happen.
func (f *feed) happens(e *event, w *Worlds) {
	for int(e.of) >= len(f.flights) {
		f.flights = append(f.flights, nil)
	}
	flight := &f.flights[e.of]
	switch e.kind {
	case comes:
		if *flight == nil {
			*flight = w.Come(e.at)
		}
	case sent:
		*flight = w.Send(e.at, *flight, e.place-1)
	case over:
		if *flight != nil {
			w.End(e.at, *flight)
			*flight = nil
		}
	}
}

// endAll ends all requests of a VM.
func (f *feed) endAll(at time.Duration, w *Worlds) {
	for i, flight := range f.flights {
		if flight != nil {
			w.End(at, flight)
			f.flights[i] = nil
		}
	}
}

// forget forgets the VMs that are gone.
func (c *Cluster) forget(now time.Duration) {
	for vm, f := range c.feeds {
		if now-f.heard > silence && len(f.events) == 0 {
			f.endAll(now-settles, c.Worlds)
			if delete(c.feeds, vm); c.arranger == f {
				c.arranger = nil
			}
		}
	}
}

// learn learns the speed of one model, that which has waited for longest, and takes cached tokens into account as what
// was saved.
func (l *Ledger) learn(now time.Duration) {
	var next *Model
	for _, c := range l.Clusters {
		for _, m := range c.Models {
			seconds, _, known := m.PerToken()
			age := now - m.asOf
			if (m.fresh && age >= relearn || known && age >= forgetAfter) && (next == nil || m.asOf < next.asOf) {
				next = m
			}
			if known {
				m.saved += float64(m.cached) * seconds * 1000
				m.cached = 0
			}
		}
	}
	if next != nil {
		next.fresh, next.asOf = false, now
		next.Learn(now)
	}
}
