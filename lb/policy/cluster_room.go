package policy

import "time"

const (
	// A batch ends with its 16th answer, or with the first one after a second.
	batchAnswers = 16
	batchTime    = time.Second
	// keptBatches is of how many batches it is known how many requests a cluster serves at once.
	keptBatches = 8
	// spareRoom is by how many requests more than have been served well at once a cluster is tried.
	spareRoom = 2
	// tooSlow is by what factor a batch must take longer than the earlier ones let expect, for those to be forgotten:
	// the cluster has changed.
	tooSlow = 3
)

// room learns from answers how many requests a cluster serves at once before they begin to wait for each other. Nobody
// says so: it is the most that was in flight while answers took no longer than the quickest ones. Beyond it they take
// longer in proportion, by Little's law.
type room struct {
	open    batch // sums
	since   time.Duration
	batches [keptBatches]batch // means; the oldest ones are replaced
	n       int                // batches so far
}

// batch is what some answers had in common: their sums, and then their means.
type batch struct {
	answers, inflight, first, whole float64
}

// add takes an answer that was placed with so many in flight, itself included, and took so many milliseconds. It
// returns the means of the batch that it completes.
func (r *room) add(now time.Duration, inflight int64, first, whole float64) (done batch, completed bool) {
	b := &r.open
	if b.answers == 0 {
		r.since = now
	}
	b.answers++
	b.inflight += float64(inflight)
	b.first += first
	b.whole += whole
	if b.answers < batchAnswers && now-r.since < batchTime {
		return batch{}, false
	}
	done = batch{b.answers, b.inflight / b.answers, b.first / b.answers, b.whole / b.answers}
	r.open = batch{}
	if r.n > 0 {
		quickest, size := r.learned()
		if done.whole > tooSlow*quickest*max(1, done.inflight/size) {
			r.n = 0
		}
	}
	r.batches[r.n%keptBatches] = done
	r.n++
	return done, true
}

// learned returns how many milliseconds the quickest answers took, 0 if there are none, and how many requests were
// served at once without taking longer.
func (r *room) learned() (quickest, size float64) {
	batches := r.batches[:min(r.n, keptBatches)]
	for i := range batches {
		if b := &batches[i]; quickest == 0 || b.whole < quickest {
			quickest = b.whole
		}
	}
	size = 1
	for i := range batches {
		if b := &batches[i]; b.whole > 0 {
			size = max(size, b.inflight*quickest/b.whole)
		}
	}
	return quickest, size
}

// requests returns how many requests the cluster may have before they are expected to wait.
func (r *room) requests() float64 {
	_, size := r.learned()
	return size + spareRoom
}

// forgetOpen drops answers of a batch that is not complete: they are of another time than what follows.
func (r *room) forgetOpen() { r.open = batch{} }
