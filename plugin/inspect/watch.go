package inspect

import (
	"strconv"
	"time"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/process"
)

// watch is whether somebody watches, and which VMs tell what they know meanwhile. It is one value of shared memory,
// little-endian: the time of the latest call i64, then for each VM its owner u64 and when it was last there i64. The
// place of a VM in there is the number in the keys of what it tells: so there are no more keys than VMs at a time.
type watch struct {
	kv    lb.KV
	owner uint64
	until time.Duration // somebody watches, as of the latest tick or call
	slot  int           // of this VM, -1 for none
}

const (
	// watchedFor is how long after a call somebody counts as watching.
	watchedFor = 10 * time.Second
	// vmGone is after what time the place of a VM that is not there any more is given to another one.
	vmGone = 30 * time.Second
	// maxVMs is how many VMs tell what they know.
	maxVMs = 256
	// maxSwaps is how often a swap is tried.
	maxSwaps = 8
	// slotSize is the size of a VM's entry.
	slotSize = 16
)

// isOn reports whether somebody watches.
func (w *watch) isOn(now time.Duration) bool { return now < w.until }

// seenAt returns when somebody looked last.
func (w *watch) seenAt() time.Duration { return w.until - watchedFor }

// begin notes that somebody looks now. If other VMs are faster again and again, the next call notes it.
func (w *watch) begin(now time.Duration) {
	w.until = now + watchedFor
	for range maxSwaps {
		val, cas, _ := w.kv.Get(process.KeyWatch)
		if len(val) < 8 {
			val = make([]byte, 8)
		}
		wire.PutDuration(val, 0, now)
		if w.kv.Set(process.KeyWatch, val, cas) == nil {
			return
		}
	}
}

// tick looks whether somebody watches, and takes a place for this VM if it has none, or renews it.
func (w *watch) tick(now time.Duration) {
	val, cas, err := w.kv.Get(process.KeyWatch)
	if err != nil || len(val) < 8 {
		return
	}
	w.until = max(w.until, wire.Duration(val, 0)+watchedFor)
	if wire.Duration(val, 0) == 0 || !w.isOn(now) {
		w.until = 0
		return
	}
	n := (len(val) - 8) / slotSize
	w.slot = -1
	free := n
	for i := range n {
		switch at := 8 + slotSize*i; {
		case wire.Uint64(val, at) == w.owner:
			w.slot = i
		case now-wire.Duration(val, at+8) > vmGone:
			free = min(free, i)
		}
	}
	if w.slot >= 0 {
		if at := 8 + slotSize*w.slot + 8; now-wire.Duration(val, at) > vmGone/3 {
			wire.PutDuration(val, at, now)
			_ = w.kv.Set(process.KeyWatch, val, cas) // if it is lost, the next tick tries again
		}
		return
	}
	if free >= maxVMs {
		return
	}
	if free == n {
		val = append(val, make([]byte, slotSize)...)
	}
	wire.PutUint64(val, 8+slotSize*free, w.owner)
	wire.PutDuration(val, 8+slotSize*free+8, now)
	if w.kv.Set(process.KeyWatch, val, cas) == nil {
		w.slot = free
	}
}

// each calls f with what each VM that is there has told under a key: its owner begins the value.
func (w *watch) each(now time.Duration, key string, f func(mine bool, rest []byte)) {
	val, _, err := w.kv.Get(process.KeyWatch)
	if err != nil {
		return
	}
	for i := range max(0, len(val)-8) / slotSize {
		at := 8 + slotSize*i
		if now-wire.Duration(val, at+8) > vmGone {
			continue
		}
		told, _, err := w.kv.Get(slotKey(key, i))
		if err == nil && len(told) >= 8 && wire.Uint64(told, 0) == wire.Uint64(val, at) {
			f(wire.Uint64(told, 0) == w.owner, told[8:])
		}
	}
}

// tell writes what this VM tells under a key.
func (w *watch) tell(key string, rest []byte) {
	if w.slot >= 0 {
		_ = w.kv.Set(slotKey(key, w.slot), wire.Writer(nil).Uint64(w.owner).Raw(string(rest)), 0)
	}
}

func slotKey(key string, slot int) string { return key + strconv.Itoa(slot) }
