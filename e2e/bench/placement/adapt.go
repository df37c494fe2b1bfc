package placement

import "time"

// adapted returns how many seconds after the first engine has become slower requests went on to come to it as before:
// what it got until then of requests beyond its share in the end, over what a second brings of these. Had its share
// changed in a step, that would be when. It reports false if the share has not changed by more than chance may do.
func adapted(runs []result, halves time.Duration) (seconds float64, ok bool) {
	const settles, least = 30 * time.Second, 0.04
	shareOf := func(from, to time.Duration) float64 {
		slow, n := 0, 0
		for i := range runs {
			for _, s := range runs[i].samples {
				if s.sent < halves+from || s.sent >= halves+to {
					continue
				}
				if n++; s.server == 0 {
					slow++
				}
			}
		}
		return float64(slow) / float64(max(1, n))
	}
	before, after := shareOf(-2*settles, 0), shareOf(settles, 4*settles)
	if before-after < least {
		return 0, false
	}
	return max(0, shareOf(0, settles)-after) / (before - after) * settles.Seconds(), true
}
