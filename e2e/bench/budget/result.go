package budget

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/warmgate/warmgate/e2e/quotasim"
)

// result is what a contender did in a round.
type result struct {
	makespan   time.Duration
	perfect    time.Duration // a lower bound of it
	shareError float64       // of a model's part of the tokens while saturated: see shareOff
	tpmExcess  float64       // see excess
	waitLarge  time.Duration // p99 of the wait for a model, of the largest 1 % of the tasks
	waitMedian time.Duration // of the 10 % around the median size
	stampede   float64       // see stampede
	asks       int
	refused    map[string]int // calls that models have refused, by their limits
	unfinished int            // tasks that were not answered
	twice      int            // tasks that were answered more than once
	counted    int            // tasks that are still counted when all are done
	deaths     deaths
}

// audit is how many things are wrong at the end.
func (r *result) audit() int { return r.unfinished + r.twice + r.counted }

func (r *result) waitRatio() float64 {
	return float64(r.waitLarge) / float64(max(r.waitMedian, time.Millisecond))
}

// judge returns what has happened in a run.
func (g *game) judge() result {
	g.mu.Lock()
	defer g.mu.Unlock()
	r := result{
		perfect: perfect(g.fleet(), g.tasks), refused: map[string]int{}, twice: g.twice, unfinished: g.open,
		makespan: slices.Max(g.done), counted: g.counted, deaths: g.deaths, asks: len(g.asks),
	}
	saturated := slices.Max(g.asked) // until then there were tasks that nobody had asked a model for
	accepted := slices.Repeat([]time.Duration{none}, len(g.tasks))
	tokens := make([]float64, len(g.models))
	limited := time.Duration(0) // from then on the rate of every model is the limit
	for k, m := range g.models {
		var sent []sentTokens
		for _, c := range m.Calls() {
			number, err := strconv.Atoi(c.Task)
			if err != nil || number < 0 {
				continue
			}
			at := c.At.Sub(g.start)
			if c.Refused != "" {
				r.refused[c.Refused]++
				if c.Refused == quotasim.ByTokens {
					sent = append(sent, sentTokens{at, c.Charged, true})
				}
				continue
			}
			sent = append(sent, sentTokens{at, c.Used, false})
			if accepted[number] == none {
				accepted[number] = at
			}
			if at <= saturated {
				tokens[k] += c.Used
			}
		}
		r.tpmExcess = max(r.tpmExcess, excess(sent, m.TokensPerMinute))
		limited = max(limited, emptied(sent, m.TokensPerMinute))
	}
	r.shareError = shareOff(g.fleet(), tokens)
	r.waitLarge, r.waitMedian = waits(g.tasks, g.asked, accepted)
	r.stampede = stampede(g.asks, limited, saturated)
	return r
}

// shareOff returns the largest difference from 1 of a model's part of the tokens over its part of the weights.
func shareOff(fleet []quotasim.Config, tokens []float64) (worst float64) {
	sum, weights := 0.0, 0.0
	for i := range fleet {
		sum, weights = sum+tokens[i], weights+weightOf(&fleet[i])
	}
	for i := range fleet {
		worst = max(worst, math.Abs(tokens[i]/max(1, sum)/(weightOf(&fleet[i])/weights)-1))
	}
	return worst
}

// sentTokens is a call that was sent to a model: what it has used, or would have been charged if it was refused.
type sentTokens struct {
	at      time.Duration
	tokens  float64
	refused bool
}

// excess returns what was sent in a time over what the rate and a full bucket allow in it, for the time of at most a
// minute in which that is most: at most 1 if the rate was held. A call that was refused counts for the times that end
// with it: after it has been sent again it must not count twice.
func excess(sent []sentTokens, perMinute float64) (most float64) {
	inOrder(sent)
	for i := range sent {
		sum := 0.0
		for j := i; j < len(sent) && sent[j].at-sent[i].at <= time.Minute; j++ {
			allowed := perMinute * (1 + (sent[j].at - sent[i].at).Minutes())
			most = max(most, (sum+sent[j].tokens)/allowed)
			if !sent[j].refused {
				sum += sent[j].tokens
			}
		}
	}
	return most
}

func inOrder(sent []sentTokens) {
	slices.SortFunc(sent, func(a, b sentTokens) int { return cmp.Compare(a.at, b.at) })
}

// emptied returns when less than a tenth of a model's bucket, which was full at first, was left for the first time, 0
// if that never was.
func emptied(sent []sentTokens, perMinute float64) time.Duration {
	inOrder(sent)
	left := perMinute
	for i := range sent {
		if sent[i].refused {
			continue
		}
		left -= sent[i].tokens
		if left+perMinute*sent[i].at.Minutes() < perMinute/10 {
			return sent[i].at
		}
	}
	return 0
}

// waits returns the p99 of the waits of the largest 1 % of the tasks, and of the 10 % around the median size.
func waits(tasks []task, asked, accepted []time.Duration) (large, median time.Duration) {
	order := bySize(tasks)
	p99 := func(of []int) time.Duration {
		var list []time.Duration
		for _, i := range of {
			if accepted[i] != none {
				list = append(list, accepted[i]-asked[i])
			}
		}
		slices.Sort(list)
		if len(list) == 0 {
			return 0
		}
		return list[(len(list)*99)/100]
	}
	n := len(order)
	return p99(order[n-max(1, n/100):]), p99(order[n*45/100 : max(n*55/100, n*45/100+1)])
}

// tick is the time in which calls count as sent at once.
const tick = 100 * time.Millisecond

// stampede returns the most calls in one tick over their mean, between two times: while rates are the limit. Before, as
// long as full buckets last, calls come as fast as slots become free.
func stampede(asks []time.Duration, from, until time.Duration) float64 {
	if until <= from {
		return 0
	}
	ticks := make([]int, (until-from+tick-1)/tick)
	n := 0
	for _, at := range asks {
		if at >= from && at < until {
			ticks[(at-from)/tick]++
			n++
		}
	}
	return float64(slices.Max(ticks)) * float64(len(ticks)) / float64(max(1, n))
}
