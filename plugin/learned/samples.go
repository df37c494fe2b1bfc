package learned

const (
	// SampleFirst is how many answers with usage are read, and then one answer in SampleEvery: reading costs a call of
	// the gateway for each part. Of requests beyond sampleMax one in SampleEvery is read, since most answers may come
	// without usage. All this is for each cluster and each class of limits, so that what is rare is known as soon as it
	// counts. With prefix_cache all are read, and where tenants share tokens those to requests that have waited.
	SampleFirst = 64
	SampleEvery = 16
	sampleMax   = SampleEvery * SampleFirst
)

// Sample decides whose answers are read.
type Sample struct {
	requests uint64
	read     uint64 // answers to those that had what was looked for
}

// Take reports whether the answer to the next request is to be read.
func (a *Sample) Take() bool {
	taken := a.read < SampleFirst && a.requests < sampleMax || a.requests%SampleEvery == 0
	a.requests++
	return taken
}

// HasRead notes that an answer was read that had what was looked for.
func (a *Sample) HasRead() { a.read++ }

// Samples are those of each class of limits.
type Samples [limitClasses]Sample

// Take reports whether the answer to the next request under that limit, 0 for none, is to be read.
func (a *Samples) Take(limit int) bool { return a[limitClass(limit)].Take() }

// HasRead notes that usage was read in an answer under that limit.
func (a *Samples) HasRead(limit int) { a[limitClass(limit)].HasRead() }
