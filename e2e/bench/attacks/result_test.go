package attacks

import (
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/loadgen"
)

func near(a, b, by float64) bool { return math.Abs(a-b) <= by }

// at returns samples of requests that were sent one a millisecond, and answered by the servers that choose returns.
func at(n int, choose func(i int) int) []loadgen.Sample {
	out := make([]loadgen.Sample, n)
	for i := range out {
		sent := time.Duration(i) * time.Millisecond
		out[i] = loadgen.Sample{ID: i, Due: sent, Sent: sent, Endpoint: strconv.Itoa(choose(i))}
	}
	return out
}

func TestApart(t *testing.T) {
	for _, c := range []struct {
		a, b []int
		want float64
	}{
		{[]int{5, 5}, []int{7, 7}, 0},
		{[]int{4, 0}, []int{0, 9}, 1},
		{[]int{1, 1, 1, 1}, []int{2, 2, 0, 0}, 0.5},
		{[]int{3, 1}, []int{1, 1}, 0.25},
		{[]int{0, 0}, []int{1, 1}, 0.5},
	} {
		if got := apart(shares(c.a), shares(c.b)); !near(got, c.want, 1e-9) {
			t.Errorf("%v and %v are %v apart, want %v", c.a, c.b, got, c.want)
		}
		if apart(shares(c.a), shares(c.b)) != apart(shares(c.b), shares(c.a)) {
			t.Errorf("%v and %v: not the same the other way round", c.a, c.b)
		}
	}
}

func TestCountsLeaveOutWhatNoServerAnswered(t *testing.T) {
	samples := append(at(7, func(i int) int { return i % 3 }), loadgen.Sample{}, loadgen.Sample{Endpoint: "3"})
	if got := counts(samples, 3); !slices.Equal(got, []int{3, 2, 2}) {
		t.Errorf("counts are %v", got)
	}
}

// TestMovingAttackerIsSeen has an attacker at one of four servers, another one every 100 ms, and requests that keep
// away.
func TestMovingAttackerIsSeen(t *testing.T) {
	const n = 4000
	r := rand.New(rand.NewPCG(1, 2))
	where := func(i int) int { return i / 100 % 4 }
	var held []interval
	for i := 0; i < n; i += 100 {
		from := time.Duration(i) * time.Millisecond
		held = append(held, interval{where(i), from, from + 100*time.Millisecond})
	}
	anywhere := func(int) int { return r.IntN(4) }
	first, second := at(n, anywhere), at(n, anywhere)
	for _, c := range []struct {
		name   string
		choose func(i int) int
		moved  float64
	}{
		{"none keeps away", anywhere, 0},
		{"all keep away", func(i int) int { return (where(i) + 1 + r.IntN(3)) % 4 }, 0.25},
		{"half of them keep away", func(i int) int {
			if i%2 == 0 {
				return r.IntN(4)
			}
			return (where(i) + 1 + r.IntN(3)) % 4
		}, 0.125},
		{"all go there", where, 0},
		{"all go to one server", func(int) int { return 2 }, 0.75},
	} {
		d := displaced(at(n, c.choose), first, second, held, 4, 0.05)
		if !near(d.moved(), c.moved, 0.03) || !near(d.perShare(), c.moved/0.05, 0.6) {
			t.Errorf("%s: %+v moved %.3f, %.2f for each of the attacker's, want %v", c.name, d, d.moved(),
				d.perShare(), c.moved)
		}
		if d.null() > 0.6 {
			t.Errorf("%s: runs without attack differ by %.2f", c.name, d.null())
		}
	}
}

func TestAvoidedByTime(t *testing.T) {
	usual := []float64{0.5, 0.5}
	samples := at(10, func(int) int { return 1 })
	for _, c := range []struct {
		name string
		held []interval
		want float64
	}{
		{"none", nil, 0},
		{"elsewhere, for half of the time", []interval{{0, 0, 5 * time.Millisecond}}, 0.25},
		{"there, for half of the time", []interval{{1, 0, 5 * time.Millisecond}}, -0.25},
		{"at both", []interval{{0, 0, time.Second}, {1, 0, time.Second}}, 0},
		{"twice at the same", []interval{{0, 0, time.Second}, {0, 0, time.Second}}, 0.5},
		{"before and after", []interval{{0, -time.Second, 0}, {0, 10 * time.Millisecond, time.Second}}, 0},
	} {
		if got := avoided(samples, c.held, usual); !near(got, c.want, 1e-9) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	if got := avoided(nil, nil, usual); got != 0 {
		t.Errorf("without requests %v", got)
	}
}

func TestMatchedByLength(t *testing.T) {
	header := func(match string) http.Header {
		h := http.Header{}
		h.Set(compare.MatchHeader, match)
		return h
	}
	samples := []loadgen.Sample{{ID: 2, Header: header("0.50")}, {ID: 0, Header: header("1.00")}, {ID: 1}}
	if got := matched(samples, []int{100, 999, 300}); !near(got, 0.625, 1e-9) {
		t.Errorf("matched %v, want 0.625", got)
	}
	if got := matched(samples[2:], []int{1, 1, 1}); got != 0 {
		t.Errorf("no header, matched %v", got)
	}
}
