package overload

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/loadgen"
)

// Result is what one contender did at one load.
type Result struct {
	calls    int
	Goodput  float64            // answers within their deadlines, a second
	Good     map[string]float64 // the share of those of each class, 0..1
	TTFT     loadgen.Quantiles  // of these, from when the call was due; of streams
	lost     int                // calls of the critical class that were not
	attempts float64            // per call
	atOnce   loadgen.Quantiles  // of the time until a refusal without a wait
	refused  int                // attempts that were refused so
	waited   int                // attempts that were refused after a wait
	Failed   int                // attempts that got another error
	unheard  int                // attempts whose client left
	late     time.Duration      // p99 of how late the generator was with a first attempt
	wrongly  int                // attempts that were refused at once, see falseRefusals
	accepted int                // attempts that were not refused at once, and had no answer in time
	cpu      bench.Used
}

// resultOf reduces the outcomes of the calls that were due in the measured time. Goodput is of what was answered in
// that time, whenever it was due: servers go on with what has come when no more comes.
func resultOf(outcomes []outcome, warm, span time.Duration) Result {
	r := Result{Good: map[string]float64{}}
	of := map[string]int{}
	var atOnce, late, ttft []time.Duration
	attempts, answered := 0, 0
	for i := range outcomes {
		o := &outcomes[i]
		if o.good && o.end >= warm && o.end < warm+span {
			answered++
		}
		if o.due < warm || o.due >= warm+span {
			continue
		}
		r.calls++
		of[o.class.name]++
		late = append(late, o.late)
		attempts += len(o.attempts)
		switch {
		case o.good:
			r.Good[o.class.name]++
			last := &o.attempts[len(o.attempts)-1]
			ttft = append(ttft, last.Due+last.TTFT-o.due)
		case o.class.name == critical:
			r.lost++
		}
		for k := range o.attempts {
			atOnce = r.count(&o.attempts[k], atOnce)
			if last := &o.attempts[k]; last.OK() && !o.good {
				r.accepted++
			}
		}
	}
	r.accepted += r.waited + r.unheard
	for name, n := range of {
		r.Good[name] /= float64(n)
	}
	r.Goodput, r.attempts = float64(answered)/span.Seconds(), float64(attempts)/float64(max(1, r.calls))
	r.TTFT = loadgen.QuantilesOf(ttft)
	r.atOnce, r.wrongly = loadgen.QuantilesOf(atOnce), falseRefusals(outcomes, warm, warm+span)
	slices.Sort(late)
	if len(late) > 0 {
		r.late = loadgen.Quantile(late, 0.99)
	}
	return r
}

// count counts an attempt that was not answered, and returns the times of refusals at once with its own, if it is one.
func (r *Result) count(s *loadgen.Sample, atOnce []time.Duration) []time.Duration {
	yes, waited := refused(s)
	switch {
	case s.OK():
	case yes && waited:
		r.waited++
	case yes:
		r.refused++
		return append(atOnce, s.Total)
	case s.Error == loadgen.ErrTimeout, s.Error == loadgen.ErrCanceled:
		r.unheard++
	default:
		r.Failed++
	}
	return atOnce
}

// margin is the part of its deadline that a refused call would have had left at its end, or more, for its refusal to be
// false: gateways do not know lengths to the last token.
const margin = 0.1

// falseRefusals counts the attempts of a time that were refused at once, for want of room, although there was some: the
// next attempt of the same class that came after it was served, and began so early that the refused call would have
// been in time as well, had it begun then. Each refusal is judged alone: served, it would have taken the place of
// another call. Where a class is not served in order, refusals of which this says nothing may be false as well.
func falseRefusals(outcomes []outcome, from, to time.Duration) (n int) {
	type attempt struct {
		o *outcome
		s *loadgen.Sample
	}
	byClass := map[string][]attempt{}
	for i := range outcomes {
		o := &outcomes[i]
		for k := range o.attempts {
			byClass[o.class.name] = append(byClass[o.class.name], attempt{o, &o.attempts[k]})
		}
	}
	for _, all := range byClass {
		// The latest first, and when the next one that was served began.
		slices.SortFunc(all, func(a, b attempt) int { return cmp.Compare(b.s.Sent, a.s.Sent) })
		begins := time.Duration(math.MaxInt64 / 2)
		for _, a := range all {
			yes, waited := refused(a.s)
			switch ms, _ := strconv.Atoi(a.s.Header.Get(waitHeader)); {
			case a.s.OK():
				begins = a.s.Sent + time.Duration(ms)*time.Millisecond
			case yes && !waited && a.s.Sent >= from && a.s.Sent < to && !strings.Contains(a.s.Detail, "retry_budget"):
				limit := a.o.due + time.Duration((1-margin)*float64(a.o.class.deadline))
				if begins+a.o.takes <= limit {
					n++
				}
			}
		}
	}
	return n
}

func refusalP99(r *Result) float64 { return bench.MS(r.atOnce.P99) }
func lost(r *Result) float64       { return float64(r.lost) }

// goodOf returns what a class has answered in time, in percent.
func goodOf(name string) func(*Result) float64 {
	return func(r *Result) float64 { return 100 * r.Good[name] }
}

var columns = bench.Columns[Result]{
	bench.Col("goodput, 1/s", "%.1f", func(r *Result) float64 { return r.Goodput }),
	bench.Col("critical in time, %", "%.0f", goodOf(classes[0].name)),
	bench.Col(classes[1].name+", %", "%.0f", goodOf(classes[1].name)),
	bench.Col(classes[2].name+", %", "%.0f", goodOf(classes[2].name)),
	bench.Col("critical lost", "%.0f", lost),
	bench.Col("refused at once", "%.0f", func(r *Result) float64 { return float64(r.refused) }),
	bench.Col("p50 of that, ms", "%.1f", func(r *Result) float64 { return bench.MS(r.atOnce.P50) }),
	bench.Col("p99, ms", "%.1f", refusalP99),
	bench.Col("refused after a wait", "%.0f", func(r *Result) float64 { return float64(r.waited) }),
	bench.Col("clients that left", "%.0f", func(r *Result) float64 { return float64(r.unheard) }),
	bench.Col("failed", "%.0f", func(r *Result) float64 { return float64(r.Failed) }),
	bench.Col("false refusals", "%.0f", func(r *Result) float64 { return float64(r.wrongly) }),
	bench.Col("accepted too late", "%.0f", func(r *Result) float64 { return float64(r.accepted) }),
	bench.Col("attempts per call", "%.2f", func(r *Result) float64 { return r.attempts }),
	bench.Col("generator late p99, ms", "%.1f", func(r *Result) float64 { return bench.MS(r.late) }),
	bench.Col("cores of Envoy", "%.2f", func(r *Result) float64 { return r.cpu.Gateways }),
	bench.Col("of clients and servers", "%.2f", func(r *Result) float64 { return r.cpu.Own }),
	bench.Col("CPU of the machine, %", "%.0f", func(r *Result) float64 { return 100 * r.cpu.Machine }),
}
