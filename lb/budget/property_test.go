package budget_test

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/warmgate/warmgate/lb/budget"
)

// drawTargets returns targets with any limits.
func drawTargets(t *rapid.T) []budget.Target {
	ts := make([]budget.Target, rapid.IntRange(1, 12).Draw(t, "targets"))
	for i := range ts {
		ts[i].Weight = rapid.Float64Range(0.01, 100).Draw(t, "weight")
		ts[i].Limits.Tokens = rapid.SampledFrom([]float64{0, 100, 5000, 200_000}).Draw(t, "tokens")
		ts[i].Limits.Requests = rapid.SampledFrom([]float64{0, 0, 5, 600}).Draw(t, "requests")
	}
	return ts
}

// Without limits the tokens that targets were given, divided by their weights, differ by no more than one request: the
// bound of deficit round robin.
func TestTargetsThatCanAlwaysTakeRequestsGetTheirShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ts := drawTargets(t)
		for i := range ts {
			ts[i].Limits = budget.Limits{Weight: ts[i].Weight}
		}
		given, last, largest := make([]float64, len(ts)), -1, 0.0
		for range rapid.IntRange(1, 300).Draw(t, "requests") {
			tokens := float64(rapid.IntRange(1, 10_000).Draw(t, "size"))
			largest = max(largest, tokens)
			last = budget.Choose(ts, last, tokens)
			budget.Charge(ts, last, 0, tokens)
			given[last] += tokens
		}
		for i := range ts {
			if d := ts[i].Deficit; d > largest+1e-6 {
				t.Fatalf("target %d has a deficit of %g after requests of at most %g tokens", i, d, largest)
			}
			for j := range ts {
				bound := largest/min(ts[i].Weight, ts[j].Weight) + 1e-6
				if d := math.Abs(given[i]/ts[i].Weight - given[j]/ts[j].Weight); d > bound*(1+1e-9) {
					t.Fatalf("targets %d and %d: tokens by weight differ by %g, more than %g", i, j, d, bound)
				}
			}
		}
	})
}

// roundsByHand returns who takes a request by the rule as it is published: small rounds one after the other, until one
// of those that can take it has a deficit of its tokens. If some have more, the one takes it that would be left if
// rounds were taken back.
func roundsByHand(ts []budget.Target, after int, tokens float64) (takes int, deficits []float64) {
	deficits = make([]float64, len(ts))
	for i := range ts {
		deficits[i] = ts[i].Deficit
	}
	for {
		takes, most := -1, tokens
		for i := range ts {
			j := (after + 1 + i) % len(ts)
			if d := deficits[j]; ts[j].Takes(tokens) && (d > most || takes < 0 && d == most) {
				takes, most = j, d
			}
		}
		if takes >= 0 {
			return takes, deficits
		}
		for i := range ts {
			deficits[i] += ts[i].Weight
		}
	}
}

func TestRealRoundsAreAsManySmallOnes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ts := make([]budget.Target, rapid.IntRange(1, 6).Draw(t, "targets"))
		for i := range ts {
			ts[i].Weight = 1
			ts[i].Full = i > 0 && rapid.Bool().Draw(t, "full")
		}
		last := -1
		for range rapid.IntRange(1, 50).Draw(t, "requests") {
			// Whole sizes and weights of 1 take whole rounds, so both ways agree in every bit.
			tokens := float64(rapid.IntRange(1, 40).Draw(t, "size"))
			want, deficits := roundsByHand(ts, last, tokens)
			if last = budget.Choose(ts, last, tokens); last != want {
				t.Fatalf("target %d, want %d", last, want)
			}
			budget.Charge(ts, last, 0, tokens)
			deficits[last] -= tokens
			for common := max(0, slices.Min(deficits)); common > 0; common-- {
				for i := range ts {
					deficits[i]--
				}
			}
			for i := range ts {
				if by, d := deficits[i], ts[i].Deficit; d != by && (!ts[i].Full || d > by) {
					t.Fatalf("target %d: deficit %g, want %g", i, d, by)
				}
			}
		}
	})
}

// step is one operation on a target, for random and for fuzzed histories.
type step struct {
	kind, target uint8
	amount       uint32
}

// history applies the steps and returns what went wrong, "" for nothing.
func history(ts []budget.Target, steps []step) string {
	now, last, largest := 1e6, -1, 0.0
	for _, s := range steps {
		i, amount := int(s.target)%len(ts), float64(s.amount%1_000_000)
		switch s.kind % 6 {
		case 0, 1:
			now += amount
		case 2: // the clock is set back
			now = max(1, now-amount)
		case 3:
			ts[i].Correct(now, amount-500_000, float64(s.kind/6%3)-1)
		case 4:
			ts[i].Restrict(now, &budget.Restriction{Tokens: amount - 1, Requests: -1, RetryAfter: 1e6})
		default:
			for j := range ts {
				ts[j].Apply(now, ts[j].Limits)
			}
			tokens := math.Floor(amount / 100)
			largest = max(largest, tokens)
			taken := budget.Choose(ts, last, tokens)
			for j := range ts {
				if ts[j].Takes(tokens) && taken == budget.None {
					return "no target was chosen although one takes the request"
				}
			}
			if taken == budget.None {
				if first := budget.Earliest(ts, tokens); ts[first].Until(tokens) <= 0 {
					return "refused without a time"
				}
				continue
			}
			if !ts[taken].Takes(tokens) {
				return "a target was chosen that does not take the request"
			}
			budget.Charge(ts, taken, now, tokens)
			last = taken
		}
		for j := range ts {
			t := &ts[j]
			if t.MissingTokens < 0 || t.MissingRequests < 0 || t.Closed < 0 {
				return "a bucket is above its cap"
			}
			if math.IsNaN(t.Deficit) || math.Abs(t.Deficit) > 1<<32+largest {
				return "a deficit is out of bounds"
			}
		}
	}
	return ""
}

func TestRandomHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ts := drawTargets(t)
		steps := make([]step, rapid.IntRange(1, 200).Draw(t, "steps"))
		for i := range steps {
			steps[i] = step{
				rapid.Uint8Range(0, 17).Draw(t, "kind"), rapid.Uint8().Draw(t, "target"),
				rapid.Uint32().Draw(t, "amount"),
			}
		}
		if problem := history(ts, steps); problem != "" {
			t.Fatal(problem)
		}
	})
}

func FuzzHistory(f *testing.F) {
	f.Add([]byte("0123456789abcdefghijklmnopqrstuvwxyz"), uint16(100), uint16(5))
	f.Fuzz(func(t *testing.T, data []byte, rate, requests uint16) {
		ts := make([]budget.Target, 3)
		for i := range ts {
			ts[i].Limits = budget.Limits{
				Weight: float64(i + 1), Tokens: float64(rate) * float64(i), Requests: float64(requests),
			}
		}
		var steps []step
		for ; len(data) >= 6; data = data[6:] {
			steps = append(steps, step{data[0], data[1], binary.LittleEndian.Uint32(data[2:])})
		}
		if problem := history(ts, steps); problem != "" {
			t.Fatal(problem)
		}
	})
}
