package metrics

import (
	"math"
	"time"

	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/loadgen"
)

const (
	// window is the interval in which a gateway scrapes every server once. A policy that uses the scraped metrics
	// alone sends all requests of a window to the same server.
	window = time.Second
	// fewest is the number of picks per server that a window must have to be looked at.
	fewest = 4
)

// herd measures how unevenly requests were sent within windows. In a window of n requests an endpoint whose share of
// all requests of the run is p should get n·p of them; by how much it gets more or less, relative to that, is its
// deviation. CV is the root of the mean square of the deviations, in which every endpoint weighs as much as its share
// and every window as much as its requests: the coefficient of variation of the picks. A policy whose shares are
// lasting differences between servers has none.
type herd struct {
	CV      float64
	Chance  float64 // what CV would be expected to be if every request went to an endpoint at random, with these shares
	Windows int     // with enough requests
}

// excess is what is left of the coefficient of variation when that of chance is taken off; 0 if it is no more than
// that.
func (h herd) excess() float64 { return math.Sqrt(max(0, h.CV*h.CV-h.Chance*h.Chance)) }

// herdOf computes the herd of a run of so many servers.
func herdOf(samples []loadgen.Sample, servers int) herd {
	windows, all := picksOf(samples, servers)
	var h herd
	var squares, requests float64
	used := 0
	for _, counts := range windows {
		n := sum(counts)
		if n < float64(fewest*servers) {
			continue
		}
		var s float64
		s, used = chiSquare(counts, all)
		squares += s
		requests += n
		h.Windows++
	}
	if h.Windows == 0 {
		return h
	}
	h.CV = math.Sqrt(squares / requests)
	h.Chance = math.Sqrt(float64(h.Windows*(used-1)) / requests) // the mean of χ² is one less than the endpoints
	return h
}

// picksOf counts the requests of each server, in each window and in all.
func picksOf(samples []loadgen.Sample, servers int) (windows map[time.Duration][]float64, all []float64) {
	windows, all = map[time.Duration][]float64{}, make([]float64, servers)
	for i := range samples {
		id := compare.Server(&samples[i], servers)
		if id < 0 {
			continue
		}
		w := samples[i].Sent / window
		if windows[w] == nil {
			windows[w] = make([]float64, servers)
		}
		windows[w][id]++
		all[id]++
	}
	return windows, all
}

// chiSquare returns the statistic χ² of the picks of a window against the shares of all picks: the sum of
// (picks − n·p)²/(n·p) over the endpoints that got any at all, and the number of these.
func chiSquare(counts, all []float64) (squares float64, used int) {
	n, total := sum(counts), sum(all)
	for id, picks := range all {
		if p := picks / total; p > 0 {
			squares += (counts[id] - n*p) * (counts[id] - n*p) / p / n
			used++
		}
	}
	return squares, used
}

func sum(xs []float64) float64 {
	s := 0.0
	for _, x := range xs {
		s += x
	}
	return s
}
