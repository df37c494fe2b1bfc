package engines

import (
	"slices"
	"strings"
	"time"

	"github.com/warmgate/warmgate/internal/statname"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/models"
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/endpoints"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/process"
	"github.com/warmgate/warmgate/plugin/stats"
)

const (
	// ModelsTimeout is for how long an endpoint may take to list its models.
	ModelsTimeout = 5 * time.Second
	// asksPerTick is how many lists of a cluster are requested in a tick.
	asksPerTick = 32
	// newListsEvery is how often lists are read at most because an endpoint has come.
	newListsEvery = time.Second
	// listsAge is how many intervals lists are used that no VM reads any more: then the next request waits for new
	// ones.
	listsAge = 3
	// firstListsWait is how long after the begin of a reading requests wait for its end.
	firstListsWait = time.Second
	// listsWork is how long a reading takes at most, beyond the interval.
	listsWork = 2 * ModelsTimeout
)

// Lists is the part of a VM that reads which models endpoints list, if that is configured, so that it is known
// before a request is refused where its model is not. A VM that has requests for the cluster reads the lists for all,
// and shares them in shared memory; each time it is whichever finds first that it is due.
type Lists struct {
	*host.Env
	clusters Clusters
	faults   *faults
	held     map[*Waiter]time.Duration // requests that wait for the first lists of their cluster, and until when
}

// Waiter is a request that waits for lists, in the gateway's context for it. known runs in that when they are known
// or it has waited for long enough, and recovered if that panics.
type Waiter struct {
	Context          uint32
	Known, Recovered func()
	cluster          *Cluster
	readAt           time.Duration // of the lists that it waits to be replaced
}

// clusterLists is what one VM knows of the lists of a cluster's endpoints, besides these themselves.
type clusterLists struct {
	config   *config.Config // by which they are read, nil for none
	neededAt time.Duration
	doubted  bool   // they are to be read again: a request is for a model that is in none of them
	version  uint32 // of the shared lists that were last read
	known    models.Lists
	reading  *listReading // by this VM, nil for none
}

// listReading is one reading of the lists of a cluster's endpoints.
type listReading struct {
	addrs   []string
	asked   int // of those
	open    int // of those asked that have not answered
	answers []listAnswer
}

// listAnswer is the answer of an endpoint, until it is shared.
type listAnswer struct {
	addr         string
	ids, aliases []string // of models, nil for none
	late         bool
}

// ListsUnread reports whether the lists are to be read first.
func (m *Cluster) ListsUnread(now time.Duration, c *config.Config) bool {
	return m.lists.unread(now, c)
}

// ListedModels returns the names of the models that there are, as far as lists were read.
func (m *Cluster) ListedModels() []string { return m.lists.known.Names }

// ListsAreNew reports whether the lists were read when a request came that has not waited for longer than body_timeout,
// or no second before that.
func (m *Cluster) ListsAreNew(now time.Duration, c *config.Config) bool {
	return now-m.lists.known.ReadAt <= newListsEvery+c.BodyTimeout
}

// unread reports whether the lists are to be read first: never, or long ago.
func (l *clusterLists) unread(now time.Duration, c *config.Config) bool {
	return l.known.ReadAt == 0 || now-l.known.ReadAt > listsAge*c.Models.Interval+listsWork
}

// NeededBy notes that a request goes by the lists of its cluster, if it does. The first one has them read.
func (m *Lists) NeededBy(cl *Cluster, c *config.Config) {
	if !c.ReadsModelLists() {
		return
	}
	l := &cl.lists
	first := l.config == nil
	l.config, l.neededAt = c, m.Clock()
	if first || l.unread(m.Clock(), c) {
		m.tickCluster(m.Clock(), cl)
	}
}

// Tick reads the lists that are due, exchanges them with the other VMs, and lets requests go on.
func (m *Lists) Tick(now time.Duration) {
	m.clusters.EachEngines(func(cl *Cluster) {
		if l := &cl.lists; l.config != nil && now-l.neededAt <= demandAge {
			m.tickCluster(now, cl)
		}
	})
	for w, until := range m.held {
		if now >= until {
			m.goOn(w)
		}
	}
}

func (m *Lists) tickCluster(now time.Duration, cl *Cluster) {
	m.refresh(now, cl)
	l := &cl.lists
	age := now - l.known.BegunAt
	due := age >= l.config.Models.Interval || age >= newListsEvery && (l.doubted || l.hasNew(cl))
	if due && len(cl.views) > 0 && (l.reading == nil || age >= l.config.Models.Interval+listsWork) {
		m.begin(now, cl)
	}
	if l.reading != nil {
		m.ask(cl, l.reading)
	}
	if l.reading != nil && len(l.reading.answers) > 0 {
		m.share(now, cl, l.reading)
	}
}

// hasNew reports whether there is an endpoint whose list no VM has tried to read.
func (l *clusterLists) hasNew(cl *Cluster) bool {
	for _, view := range cl.views {
		for i := range view.Endpoints {
			if len(l.known.By) < models.MaxListEndpoints && !l.known.Knows(lb.ServerOf(view.Endpoints[i].Addr)) {
				return true
			}
		}
	}
	return false
}

// begin begins to read the lists of all endpoints, unless another VM does.
func (m *Lists) begin(now time.Duration, cl *Cluster) {
	raw, cas, _ := m.GW.KV().Get(process.KeyLists + cl.name) // where there is nothing yet, several may begin
	lists := models.ReadLists(raw)
	lists.BegunAt = now
	if m.GW.KV().Set(process.KeyLists+cl.name, lists.Append(nil), cas) != nil {
		return
	}
	cl.lists.known.BegunAt = now
	r, there := &listReading{}, map[string]bool{}
	for _, view := range cl.views {
		for i := range view.Endpoints {
			if addr := lb.ServerOf(view.Endpoints[i].Addr); !there[addr] && len(r.addrs) < models.MaxListEndpoints {
				there[addr] = true
				r.addrs = append(r.addrs, addr)
			}
		}
	}
	cl.lists.reading = r
}

// ask asks the next endpoints for their lists.
func (m *Lists) ask(cl *Cluster, r *listReading) {
	for n := 0; n < asksPerTick && r.asked < len(r.addrs); n++ {
		addr := r.addrs[r.asked]
		r.asked++
		r.open++
		answered := func(page []byte, result string) { m.answered(cl, r, addr, page, result) }
		if m.GW.ModelsPage(addr, cl.lists.config, answered) != nil {
			answered(nil, endpoints.ScrapeUnreachable)
		}
	}
}

// answered takes an endpoint's page, or why there is none.
func (m *Lists) answered(cl *Cluster, r *listReading, addr string, page []byte, result string) {
	if cl.lists.reading != r {
		return
	}
	now, a := m.GW.Now(), listAnswer{addr: addr}
	if result == endpoints.ScrapeOK {
		if a.ids, a.aliases = prompt.ListedModels(page); a.ids == nil {
			result = endpoints.ScrapeUnreadable
		}
	}
	kind, _, _ := strings.Cut(result, " ")
	late := [...]string{endpoints.ScrapeUnreachable, endpoints.ScrapeTimeout, endpoints.ScrapeIncomplete}
	a.late = slices.Contains(late[:], kind)
	m.Stats.Count(statname.With(stats.ModelLists, "result", kind), 1)
	if result != endpoints.ScrapeOK {
		m.faults.log(now, cl.name, addr+" does not list its models: "+result)
	}
	r.answers = append(r.answers, a)
	if r.open--; r.open == 0 && r.asked == len(r.addrs) {
		m.share(now, cl, r)
	}
}

// share writes what was read into shared memory. A swap that is lost is tried again at the next tick.
func (m *Lists) share(now time.Duration, cl *Cluster, r *listReading) {
	key := process.KeyLists + cl.name
	raw, cas, err := m.GW.KV().Get(key)
	if err != nil {
		return
	}
	lists := models.ReadLists(raw)
	for i := range r.answers {
		a := &r.answers[i]
		lists.Take(now, a.addr, a.ids, a.aliases, a.late)
	}
	ended := r.open == 0 && r.asked == len(r.addrs)
	if ended {
		lists.Ended(now, r.addrs)
	}
	if m.GW.KV().Set(key, lists.Append(nil), cas) != nil {
		return
	}
	if r.answers = nil; ended {
		cl.lists.reading = nil
	}
	m.refresh(now, cl)
}

// refresh takes over what the VMs share of a cluster, and lets the requests go on that have waited for it.
func (m *Lists) refresh(now time.Duration, cl *Cluster) {
	l := &cl.lists
	raw, version, err := m.GW.KV().Get(process.KeyLists + cl.name)
	if err != nil || version == l.version {
		return
	}
	before := l.known.ReadAt
	l.version, l.known = version, models.ReadLists(raw)
	l.doubted = l.doubted && l.known.ReadAt == before
	cl.facts.SetLists(l.known)
	if l.unread(now, l.config) {
		return
	}
	for w := range m.held {
		if w.cluster == cl && w.readAt != l.known.ReadAt {
			m.goOn(w)
		}
	}
}

// Await has a request wait until the lists of its cluster are known, for so long at most, if it is one of the first; or
// until they are read again, if its model is in none of them and they are not new: it may have been loaded since. It
// reports whether it waits.
func (m *Lists) Await(w *Waiter, cl *Cluster, c *config.Config, most time.Duration, unlisted bool) bool {
	l, now := &cl.lists, m.Clock()
	readAt := l.known.ReadAt
	switch {
	case !c.ReadsModelLists():
		return false
	case l.unread(now, c):
	case !unlisted || now-readAt < newListsEvery:
		return false
	default:
		l.doubted = true
		m.tickCluster(now, cl)
	}
	if l.known.ReadAt != readAt || now-l.known.BegunAt >= firstListsWait {
		return false
	}
	w.cluster, w.readAt = cl, readAt
	m.held[w] = now + most
	return true
}

// Waiting returns how many requests wait.
func (m *Lists) Waiting() int { return len(m.held) }

// Left ends the wait of a request that is over.
func (m *Lists) Left(w *Waiter) { delete(m.held, w) }

// goOn lets a request go on that has waited for lists.
func (m *Lists) goOn(w *Waiter) {
	delete(m.held, w)
	m.RunAs(w.Context, "the lists of models", w.Known, w.Recovered)
}
