package enginesim

// Histogram is one of Prometheus: Counts[i] observations were at most Bounds[i] and more than the bound before. The
// count after the last bound is of those above all bounds.
type Histogram struct {
	Bounds []float64 // at most 31
	Counts [32]int64
	Sum    float64
}

// Observe counts a value.
func (h *Histogram) Observe(v float64) {
	i := 0
	for i < len(h.Bounds) && v > h.Bounds[i] {
		i++
	}
	h.Counts[i]++
	h.Sum += v
}

// Total is the number of observations.
func (h *Histogram) Total() (n int64) {
	for _, c := range h.Counts {
		n += c
	}
	return n
}
