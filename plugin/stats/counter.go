package stats

import "time"

// Metrics are the gateway's statistics. A metric of the same name is the same metric in every VM of the process.
type Metrics interface {
	Counter(name string) uint32
	Gauge(name string) uint32
	Histogram(name string) uint32
	Add(id uint32, n int64)
	Set(id uint32, n uint64) // of a gauge, or a value for a histogram
}

// counter is one that is added to often. What it has counted goes to the gateway once a second, since most requests add
// to a dozen of them.
type counter struct {
	id uint32 // the gateway's + 1, 0 as long as it is not defined
	n  int64  // that the gateway does not have yet
}

// flush adds what was counted to the gateway's counter of that name.
func (k *counter) flush(m Metrics, name func() string) { k.flushWhole(m, 1, name) }

// flushMillis is flush for a counter of milliseconds that counts durations. What is no whole one goes there later.
func (k *counter) flushMillis(m Metrics, name func() string) {
	k.flushWhole(m, int64(time.Millisecond), name)
}

func (k *counter) flushWhole(m Metrics, unit int64, name func() string) {
	whole := k.n / unit
	if whole == 0 {
		return
	}
	if k.id == 0 {
		k.id = m.Counter(name()) + 1
	}
	k.n -= whole * unit
	m.Add(k.id-1, whole)
}

// histogram is the gateway's id of one + 1, 0 as long as it is not defined.
type histogram uint32

// record adds a value to the histogram of that name.
func (h *histogram) record(m Metrics, n int64, name func() string) {
	if *h == 0 {
		*h = histogram(m.Histogram(name()) + 1)
	}
	m.Set(uint32(*h-1), uint64(max(n, 0)))
}

// millis rounds to milliseconds.
func millis(d time.Duration) int64 { return int64((d + time.Millisecond/2) / time.Millisecond) }
