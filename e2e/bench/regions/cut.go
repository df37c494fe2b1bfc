package regions

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/warmgate/warmgate/e2e/bench/scripted"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/traffic"
)

// rest is for how long after the last request is sent those under way may end. Then they are cut off, since the longest
// answers take as long as what is measured.
const rest = 5 * time.Second

// tooLong is for how long a request that is cut off without a token of its answer may have waited.
const tooLong = 20 * time.Second

// unanswered are the requests of a run that were cut off without a token of their answers.
type unanswered struct {
	all  int
	long int // of these, those sent more than tooLong before
}

func (u unanswered) add(more unanswered) unanswered {
	return unanswered{u.all + more.all, u.long + more.long}
}

// playAll plays the scripts of all regions side by side, and returns the samples by region.
func playAll(ctx context.Context, players *[regions]scripted.Player, users [regions]int,
	scripts [regions][]traffic.Script,
) (samples [regions][]loadgen.Sample, all unanswered) {
	cut := players[0].Until + rest
	ctx, cancel := context.WithTimeout(ctx, cut)
	defer cancel()
	var wg sync.WaitGroup
	var by [regions]unanswered
	for i := range players {
		wg.Add(1)
		go func() {
			defer wg.Done()
			samples[i], by[i] = cutOff(players[i].Play(ctx, scripts[i], users[i]), cut)
		}()
	}
	wg.Wait()
	for _, u := range by {
		all = all.add(u)
	}
	return samples, all
}

// around is within what time of the cut a request ends that was cut off: clocks start one after another, and a machine
// with much to do is late.
const around = 100 * time.Millisecond

// cutOff makes requests that were cut off such that ended then. One without a token of its answer by then counts as if
// it had come: it cannot be left out, since the longest waits would be. What would have followed is left out.
func cutOff(samples []loadgen.Sample, cut time.Duration) (ended []loadgen.Sample, u unanswered) {
	wasCut := func(s *loadgen.Sample, kinds ...string) bool {
		return slices.Contains(kinds, s.Error) && s.Due+s.Total >= cut-around
	}
	samples = slices.DeleteFunc(samples, func(s loadgen.Sample) bool { return wasCut(&s, loadgen.ErrNotSent) })
	for i := range samples {
		s := &samples[i]
		if !wasCut(s, loadgen.ErrTimeout, loadgen.ErrCanceled) {
			continue
		}
		if s.TTFT == 0 {
			u.all++
			if s.Total > tooLong {
				u.long++
			}
		}
		s.Error, s.Detail, s.TTFT = "", "", cmp.Or(s.TTFT, s.Total)
	}
	return samples, u
}
