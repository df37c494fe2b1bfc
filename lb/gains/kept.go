package gains

import (
	"math"
	"time"
)

const (
	// systematic is the relative error that no number of streams makes smaller: engines have not the same load when
	// they compute short prompts and long ones.
	systematic = 0.05
	// sure is the relative error up to which what streams show counts, however sure others were.
	sure = 0.1
	// atLeast is the least weight that it has then: a speed that changes little is followed, too.
	atLeast = 0.25
	// contradicts is by how many standard errors two estimates differ that are not of the same speed.
	contradicts = 3
	// fades is how long a speed is reported that no stream has shown again.
	fades = 24 * time.Hour
)

// estimate is how many seconds a token takes, as far as that is known.
type estimate struct {
	rate, variance float64
	at             time.Duration
}

func (e estimate) none() bool { return !(e.variance > 0) || !(e.rate >= 0) }

// off returns the relative error.
func (e estimate) off() float64 {
	if e.none() || e.rate == 0 {
		return math.Inf(1)
	}
	return math.Sqrt(e.variance) / e.rate
}

// aged returns what an estimate is worth later.
func (e estimate) aged(now time.Duration) estimate {
	if now > e.at {
		e.variance += square(maxError*e.rate) * float64(now-e.at) / float64(fades)
		e.at = now
	}
	return e
}

// and returns what two estimates say together, each by how sure it is.
func (e estimate) and(other estimate) estimate {
	of := other.variance / (e.variance + other.variance)
	return estimate{of*e.rate + (1-of)*other.rate, of * e.variance, max(e.at, other.at)}
}

// differs returns by how many standard errors two estimates differ.
func (e estimate) differs(other estimate) float64 {
	return math.Abs(e.rate-other.rate) / math.Sqrt(e.variance+other.variance)
}

func square(x float64) float64 { return x * x }

// knowledge is what was learned of streams that are not there any more.
type knowledge struct {
	estimate
	doubt  estimate // what came since, less sure and all on the same side of it
	doubts int      // how many estimates that is
}

// age has time pass. What has faded is forgotten: it would only stand against what comes.
func (k *knowledge) age(now time.Duration) {
	if k.estimate = k.aged(now); k.off() > maxError {
		*k = knowledge{}
	}
}

// with returns the knowledge with what other streams show. Streams that are not sure change nothing, unless it is as
// unsure, or one estimate after the other is on the same side of it: a tenth of liars may move each a little, the same
// way, so their mean is not as good as there are many.
func (k knowledge) with(fresh estimate) knowledge {
	if fresh.none() {
		return k
	}
	if k.none() {
		return knowledge{estimate: fresh}
	}
	differs, surer := fresh.differs(k.estimate), fresh.variance <= k.variance
	switch {
	case fresh.off() <= sure && (differs > 2*contradicts || differs > contradicts && surer):
		return knowledge{estimate: fresh}
	case differs <= contradicts && (fresh.off() <= sure || surer):
		k.variance = max(k.variance, fresh.variance*atLeast/(1-atLeast))
		return knowledge{estimate: k.and(fresh)}
	case differs <= 1:
		k.doubts = 0
		return k
	}
	if k.doubts > 0 && (k.doubt.rate > k.rate) == (fresh.rate > k.rate) {
		fresh = k.doubt.and(fresh)
	} else {
		k.doubts = 0
	}
	k.doubt = fresh
	if k.doubts++; k.doubts > 1 && fresh.differs(k.estimate) > contradicts+1 && fresh.off() <= maxError {
		return knowledge{estimate: fresh}
	}
	return k
}
