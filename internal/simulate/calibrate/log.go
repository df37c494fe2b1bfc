package calibrate

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/warmgate/warmgate/internal/enginesim"
	"github.com/warmgate/warmgate/internal/simulate"
)

// fewest is from how many answers on a log says something.
const fewest = 50

// FitLog fits the times and the cache to the access log of a gateway that sends all that its servers, which are alike,
// have to do.
//
// Each streamed answer that has shown its usage gives two times: until its first output, and from then on. What its
// server did meanwhile is put together from the other lines. Until the first output it has computed this prompt, what
// was left of those that were sent before, and the steps of the answers beside it; from then on, as many steps as the
// answer has tokens, for all answers beside it, and the prompts that came. So the times of the log are linear in those
// of the engine, as the means of pages are. The fifth that fits worst, such as what has waited in the server's queue,
// does not count (trimmed least squares; Rousseeuw, 1984). Every fifth answer is left out of the fit, and shows how far
// off it is.
func FitLog(log *simulate.AccessLog) (Result, error) {
	servers := map[string]*timeline{}
	for i := range log.Requests {
		r := log.Requests[i].Line
		if r.Status == 0 || r.Host == "-" || r.Host == "" {
			continue
		}
		if servers[r.Host] == nil {
			servers[r.Host] = &timeline{}
		}
		servers[r.Host].add(r)
	}
	var rows, heldFirst, heldRest []row
	number := 0
	for _, host := range slices.Sorted(maps.Keys(servers)) {
		t := *servers[host]
		t.sort()
		for i := range t {
			if !t[i].whole {
				continue
			}
			first, rest := t.rows(i)
			if number++; number%5 == 0 {
				heldFirst, heldRest = append(heldFirst, first), append(heldRest, rest)
			} else {
				rows = append(rows, first, rest)
			}
		}
	}
	if number < fewest {
		return Result{}, errors.New("the access log has fewer than 50 streamed answers that have shown their usage")
	}
	d := timesOf(enginesim.DefaultTimes())
	sortByOff(rows, solve(rows, d))
	rows = rows[:len(rows)*4/5]
	fitted := solve(rows, d)
	return Result{
		Times: engineTimes(fitted), CacheTokens: cacheSize(log), Guessed: guessed(rows, fitted, d), Answers: number,
		Error: medianOff(heldFirst, fitted), RestError: medianOff(heldRest, fitted),
	}, nil
}

// medianOff returns by how much the times are off, in the middle of rows, which it sorts.
func medianOff(rows []row, times [unknowns]float64) float64 {
	sortByOff(rows, times)
	return rows[len(rows)/2].off(times)
}

// sortByOff sorts rows by how far off the times are.
func sortByOff(rows []row, times [unknowns]float64) {
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(a.off(times), b.off(times)) })
}
