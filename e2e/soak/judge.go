package main

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
)

// sample is how much memory was in use at a time since the start.
type sample struct {
	at  time.Duration
	mib float64
}

// growth is how memory grew by the samples of a run.
type growth struct {
	Thirds [3]float64 `json:"used_mib_by_third"` // medians
	Slope  float64    `json:"used_mib_per_hour"` // after the ramp
	Low    float64    `json:"used_mib_per_hour_low"`
	High   float64    `json:"used_mib_per_hour_high"`
}

const (
	// ramp is the part of a run in which caches fill, and the heap of each VM: it grows until Go's first collections,
	// which come late where little is allocated, as on the main thread.
	ramp = 1.0 / 3
	// long is from what length on a third of a run is longer than that takes, which is some ten minutes. What a shorter
	// one uses is judged by the size only.
	long = 40 * time.Minute
	// maxSlope is how fast memory may surely grow, in MiB an hour. 20 bytes a request that are never freed are 20 MiB
	// an hour.
	maxSlope = 8
	// maxGrowth is how much more a short run may use in its last third than in its middle one.
	maxGrowth = 40
)

// judge detects memory that grows with time. The slope is Theil and Sen's, the median of the slopes of all pairs of
// samples after the ramp: single outliers and a step do not move it. Low and High are its confidence interval of 95 %.
func judge(samples []sample) growth {
	var g growth
	n := len(samples)
	for i := range g.Thirds {
		g.Thirds[i] = medianOf(samples[i*n/3 : (i+1)*n/3])
	}
	g.Slope, g.Low, g.High = slope(samples[int(ramp*float64(n)):])
	return g
}

// grows returns an error if memory grew in a run of that length.
func (g growth) grows(length time.Duration) error {
	if length >= long && g.Low > maxSlope {
		return fmt.Errorf("the memory of Envoy grows by %.1f MiB an hour, surely by %.1f, at most %d may "+
			"be; by thirds %s",
			g.Slope, g.Low, maxSlope, thirds(g.Thirds))
	}
	if d := g.Thirds[2] - g.Thirds[1]; d > maxGrowth {
		return fmt.Errorf("the memory of Envoy grew by %.1f MiB, at most %d may be; by thirds %s",
			d, maxGrowth, thirds(g.Thirds))
	}
	return nil
}

// slope returns the median of the slopes of all pairs, in MiB an hour, and the ends of its confidence interval: by Sen,
// slopes so far from the middle of their order as Kendall's statistic is likely to be by chance.
func slope(samples []sample) (mid, low, high float64) {
	var slopes []float64
	for i, a := range samples {
		for _, b := range samples[i+1:] {
			if d := (b.at - a.at).Hours(); d > 0 {
				slopes = append(slopes, (b.mib-a.mib)/d)
			}
		}
	}
	const few = 10 // samples are too few to judge by
	if len(samples) < few || len(slopes) == 0 {
		return 0, 0, 0
	}
	slices.Sort(slopes)
	const z = 1.96
	n := float64(len(samples))
	c := z * math.Sqrt(n*(n-1)*(2*n+5)/18)
	m := float64(len(slopes))
	return slopes[len(slopes)/2], slopes[max(0, int((m-c)/2))], slopes[min(len(slopes)-1, int((m+c)/2)+1)]
}

func thirds(mib [3]float64) string {
	return fmt.Sprintf("%.1f, %.1f, %.1f MiB", mib[0], mib[1], mib[2])
}

func medianOf(samples []sample) float64 {
	return bench.SpreadBy(samples, func(s *sample) float64 { return s.mib }).Median
}
