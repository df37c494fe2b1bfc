package clusters

import (
	"math"
	"math/rand/v2"
	"sync"
	"time"
)

// contender is one way to choose the cluster.
type contender struct {
	name   string
	mode   string // of cluster_metrics, "" for none
	about  string
	config string // of the plugin
	path   string
	header func(list []*site, seed uint64) chooser // chooses in the plugin's place; nil: the gateway chooses
}

func nameOf(c contender) string { return c.name }

// chooser chooses a cluster by its number, and learns how requests end.
type chooser interface {
	choose() int
	ended(cluster int, first, whole time.Duration, ok bool)
}

// off leaves every request to the gateway.
const off = `{"enabled":false}`

// metrics returns a configuration of cluster_metrics.
func metrics(mode string) string {
	return `{"lb_type":"cluster","lb_policy":"cluster_metrics","lb_config":{"mode":"` + mode +
		`","service_list":["fast","medium","little"],"envoy":{"admin_cluster":"warmgate-admin"}}}`
}

var contenders = []contender{
	own("AdaptiveScore"), own("LeastBusy"), own("LeastTotalLatency"),
	{name: weighted, about: "Envoy's weighted_clusters by speed", config: off, path: "/weighted" + call},
	published("AdaptiveScore"), published("LeastBusy"), published("LeastTotalLatency"),
}

// own is a mode of Warmgate's, with the defaults of all keys.
func own(mode string) contender {
	return contender{name: mode, mode: mode, config: metrics(mode), path: call}
}

const publishedSuffix = " per VM"

// published is a mode as Higress's plugin has it.
func published(mode string) contender {
	return contender{
		name: mode + publishedSuffix, about: "as Higress publishes it, in two VMs", config: off, path: call,
		header: func(list []*site, seed uint64) chooser { return perVM(len(list), mode, seed) },
	}
}

// vms chooses in one of several VMs, each of which knows of its own requests only.
type vms struct {
	mu     sync.Mutex
	list   []*vm
	random *rand.Rand
}

// vm is the state of Higress's cluster_metrics, by cluster.
type vm struct {
	mode    string
	random  *rand.Rand
	ongoing []int
	latest  [][]float64 // LeastTotalLatency: the latest times in ms, sampled at most
	first   []float64   // moving averages in ms, 0 for none
	whole   []float64
	good    []int
	bad     []int
	streak  []int
	cools   []time.Time
}

// sampled is how many answers a mean latency is of.
const sampled = 100

func perVM(n int, mode string, seed uint64) chooser {
	v := &vms{random: rand.New(rand.NewPCG(seed, 2))}
	for range 2 {
		v.list = append(v.list, &vm{
			mode: mode, random: v.random, latest: make([][]float64, n),
			ongoing: make([]int, n), first: make([]float64, n), whole: make([]float64, n),
			good: make([]int, n), bad: make([]int, n), streak: make([]int, n), cools: make([]time.Time, n),
		})
	}
	return v
}

func (v *vms) choose() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	at := v.random.IntN(len(v.list))
	m := v.list[at]
	c := m.choose(time.Now())
	m.ongoing[c]++
	return c + at*1000
}

func (v *vms) ended(chosen int, first, whole time.Duration, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.list[chosen/1000].ended(chosen%1000, first, whole, ok)
}

func (m *vm) choose(now time.Time) int {
	switch m.mode {
	case "LeastBusy":
		return m.leastBusy()
	case "LeastTotalLatency":
		return m.fastest()
	}
	n := len(m.ongoing)
	var list []int
	for i := range n {
		if !now.Before(m.cools[i]) {
			list = append(list, i)
		}
	}
	if len(list) == 0 {
		for i := range n {
			list = append(list, i)
		}
	}
	m.random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	list = list[:min(2, len(list))]
	best := list[0]
	for _, i := range list[1:] {
		if m.score(now, i) < m.score(now, best) {
			best = i
		}
	}
	return best
}

// leastBusy goes from a random one to each that has fewer.
func (m *vm) leastBusy() int {
	c := m.random.IntN(len(m.ongoing))
	for i, ongoing := range m.ongoing {
		if ongoing < m.ongoing[c] {
			c = i
		}
	}
	return c
}

// fastest returns the one with the lowest mean; while one has no answer yet, the one with the fewest requests.
func (m *vm) fastest() int {
	best, lowest := 0, math.Inf(1)
	for i, times := range m.latest {
		if len(times) == 0 {
			return m.leastBusy()
		}
		sum := 0.0
		for _, t := range times {
			sum += t
		}
		if mean := sum / float64(len(times)); mean < lowest {
			best, lowest = i, mean
		}
	}
	return best
}

func (m *vm) score(now time.Time, i int) float64 {
	inflight := float64(m.ongoing[i] + 1)
	if now.Before(m.cools[i]) {
		inflight += float64(m.streak[i] + 1)
	}
	if m.first[i] == 0 && m.whole[i] == 0 {
		return inflight
	}
	share := 0.0
	if all := m.good[i] + m.bad[i]; all > 0 {
		share = float64(m.bad[i]) / float64(all)
	}
	return (0.7*math.Sqrt(m.first[i]+1) + 0.3*math.Sqrt(m.whole[i]+1)) * inflight * (1 + 3*share)
}

func (m *vm) ended(i int, first, whole time.Duration, ok bool) {
	m.ongoing[i]--
	f, w := float64(first.Milliseconds()), float64(whole.Milliseconds())
	if !ok {
		for j := range m.first {
			f, w = max(f, m.first[j]), max(w, m.whole[j])
		}
		f, w = 2*f, 2*w
		m.bad[i]++
		m.streak[i]++
		m.cools[i] = time.Now().Add(30 * time.Second)
	} else {
		m.good[i]++
		m.streak[i] = 0
	}
	m.latest[i] = append(m.latest[i], w)
	m.latest[i] = m.latest[i][max(0, len(m.latest[i])-sampled):]
	for _, mean := range []struct {
		of *float64
		x  float64
	}{{&m.first[i], f}, {&m.whole[i], w}} {
		if *mean.of == 0 {
			*mean.of = mean.x
		}
		*mean.of = (*mean.of + mean.x) / 2
	}
}
