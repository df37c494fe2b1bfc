package inspect

import (
	"strconv"
	"time"

	"github.com/warmgate/warmgate/internal/order"
	"github.com/warmgate/warmgate/internal/state"
	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/plugin/apicall"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/process"
)

// While somebody watches, each VM keeps its latest decisions and tells them to the others at its ticks: so that any of
// them can show all.

const (
	// maxDecisions is how many decisions a VM keeps.
	maxDecisions = 64
	// perTick is how many decisions of one tick a VM keeps. It bounds what it costs to be watched; a busy VM shows a
	// sample.
	perTick = 8
	// MaxCandidates is how many candidates of a decision are shown.
	MaxCandidates = 8
	// maxShownDecisions is how many decisions of all VMs are shown.
	maxShownDecisions = 512
	// overlap is how much more than asked for is shown: what a VM has kept is told at its next tick.
	overlap = 3 * process.TickPeriod
)

// Decisions are the latest ones of a VM, and those that others have told.
type Decisions struct {
	env   *host.Env
	watch *watch
	ring
}

// ring keeps the latest decisions of a VM.
type ring struct {
	records [maxDecisions]record
	count   uint64 // of decisions so far: the latest one has this number
	taken   int    // since the latest tick
	lost    int64  // decisions that nobody has seen
	changed bool   // since the others were told
}

// record is one decision.
type record struct {
	number  uint64 // 0 for none
	changed bool   // since the others were told
	state.Decision
	text   string        // as the others were told, "" before
	toldAt time.Duration // when that was
}

// Watched reports whether somebody watches.
func (ds *Decisions) Watched(now time.Duration) bool { return ds.watch.isOn(now) }

// HasRoom reports whether the next decision is kept.
func (ds *Decisions) HasRoom() bool { return ds.taken < perTick }

// Add keeps a decision that describe returns, unless there are too many. It returns its number, 0 if it is not
// kept.
func (ds *Decisions) Add(describe func() state.Decision) uint64 {
	r := &ds.ring
	if !ds.HasRoom() {
		r.lost++
		r.changed = true
		return 0
	}
	r.taken++
	r.count++
	old := &r.records[r.count%maxDecisions]
	if old.number > 0 && (old.changed || old.toldAt > ds.watch.seenAt()) {
		r.lost++
	}
	d := describe()
	d.ID = strconv.FormatUint(ds.watch.owner, 36) + "-" + strconv.FormatUint(r.count, 10)
	d.AtMS = ds.env.GW.Wall().Milliseconds()
	*old = record{number: r.count, changed: true, Decision: d}
	r.changed = true
	return r.count
}

// End has add complete a decision by what has come of it, if it is still kept.
func (ds *Decisions) End(number uint64, add func(d *state.Decision)) {
	if old := &ds.records[number%maxDecisions]; number > 0 && old.number == number {
		add(&old.Decision)
		old.changed, ds.changed = true, true
	}
}

// tell tells the others what has changed, or when nobody watches any more, forgets it.
func (ds *Decisions) tell(now time.Duration) {
	r := &ds.ring
	r.taken = 0
	if !ds.watch.isOn(now) {
		if r.records[r.count%maxDecisions].number > 0 {
			// Who watches next is told that there are none. Numbers go on: requests that were shown may not have ended.
			*r = ring{count: r.count, changed: true}
		}
		return
	}
	if !r.changed || ds.watch.slot < 0 {
		return
	}
	r.changed = false
	w := wire.Writer(nil).Int64(r.lost)
	for i := range uint64(maxDecisions) {
		old := &r.records[(r.count+1+i)%maxDecisions]
		if old.number == 0 {
			continue
		}
		if old.changed {
			old.text, old.toldAt, old.changed = decisionText(&old.Decision), now, false
		}
		w = w.Int64(old.AtMS).Duration(old.toldAt).Text(old.text)
	}
	ds.watch.tell(process.KeyDecisions, w)
}

// told is a decision that a VM has told.
type told struct {
	atMS int64
	text string
}

// toldSince returns what the VMs have told since a time on the wall clock, oldest first, and how many were lost.
func (ds *Decisions) toldSince(now time.Duration, since int64) (list string, lost int64) {
	var all []told
	after := now - time.Duration(ds.env.GW.Wall().Milliseconds()-since)*time.Millisecond - overlap
	ds.watch.each(now, process.KeyDecisions, func(_ bool, value []byte) {
		r := wire.NewReader(value)
		for lost += r.Int64(); r.Len() > 0; {
			t := told{atMS: r.Int64()}
			toldAt := r.Duration()
			t.text = string(r.Text())
			if r.OK() && (since == 0 || toldAt >= after) {
				all = append(all, t)
			}
		}
	})
	order.By(all, func(a, b *told) bool { return a.atMS < b.atMS })
	all = all[max(0, len(all)-maxShownDecisions):]
	return apicall.List(len(all), func(i int) string { return all[i].text }), lost
}
