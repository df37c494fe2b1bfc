package placement

import (
	"slices"
	"time"

	"github.com/warmgate/warmgate/internal/simulate"
)

// sample is what became of one request.
type sample struct {
	sent   time.Duration
	server int
	ttft   float64 // seconds
	total  float64
	token  float64 // between two tokens of the answer, 0 for one alone
}

// recorder notes what becomes of the requests of a load, but of those that only warm caches.
type recorder struct {
	simulate.Load
	samples []sample
	refused int
}

func (l *recorder) Ended(now time.Duration, number int, r *simulate.Request, served bool) {
	switch {
	case !served:
		l.refused++
	case !r.Warm:
		s := sample{sent: r.Sent(), server: r.Server(), ttft: r.TTFT().Seconds(), total: (now - r.Sent()).Seconds()}
		if r.Answer > 1 {
			s.token = (s.total - s.ttft) / float64(r.Answer-1)
		}
		l.samples = append(l.samples, s)
	}
	l.Load.Ended(now, number, r, served)
}

// share returns the value that a share of all is not above.
func share(samples []sample, of float64, get func(*sample) float64) float64 {
	all := make([]float64, len(samples))
	for i := range samples {
		all[i] = get(&samples[i])
	}
	slices.Sort(all)
	if len(all) == 0 {
		return 0
	}
	return all[min(len(all)-1, int(of*float64(len(all))))]
}

func ttftOf(s *sample) float64  { return s.ttft }
func tokenOf(s *sample) float64 { return s.token }

// target is how soon answers are to come: the first token, and each behind it, in seconds.
type target struct{ ttft, token float64 }

// What targets have to spare.
const (
	spareTTFT  = 1.5
	spareToken = 1.2
)

// targetOf returns what nine in ten requests of a run have, with something to spare.
func targetOf(samples []sample) target {
	const most = 0.9
	return target{spareTTFT * share(samples, most, ttftOf), spareToken * share(samples, most, tokenOf)}
}

// met returns which part of the requests has met a target.
func (t target) met(samples []sample) float64 {
	n := 0
	for i := range samples {
		if samples[i].ttft <= t.ttft && samples[i].token <= t.token {
			n++
		}
	}
	return float64(n) / float64(max(1, len(samples)))
}
