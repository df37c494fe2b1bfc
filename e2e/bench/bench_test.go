package bench

import (
	"strings"
	"testing"
)

func TestSpreadOf(t *testing.T) {
	for _, tc := range []struct {
		in   []float64
		want Spread
	}{
		{nil, Spread{}},
		{[]float64{4}, Spread{4, 4, 4}},
		{[]float64{9, 1, 5}, Spread{5, 1, 9}},
		{[]float64{8, 1, 2, 4}, Spread{3, 1, 8}},
	} {
		if got := SpreadOf(tc.in); got != tc.want {
			t.Errorf("SpreadOf(%v) = %v, want %v", tc.in, got, tc.want)
		}
	}
	in := []float64{3, 1, 2}
	SpreadOf(in)
	if in[0] != 3 {
		t.Error("SpreadOf sorted its argument, which the pairing of runs relies on")
	}
	if got := SpreadOf(in).Format("%.1f"); got != "2.0 (1.0..3.0)" {
		t.Errorf("Format = %q", got)
	}
}

// TestRatiosPair holds that a disturbance common to both of a pair does not show.
func TestRatiosPair(t *testing.T) {
	if got := Ratios([]float64{2, 20, 200}, []float64{1, 10, 100}); got != (Spread{2, 2, 2}) {
		t.Errorf("Ratios = %v, want 2 throughout", got)
	}
	if got := Ratios([]float64{2, 4}, []float64{1}); got != (Spread{2, 2, 2}) {
		t.Errorf("Ratios of unequal lengths = %v, want the common part", got)
	}
}

func TestOrderIsFair(t *testing.T) {
	const n = 4
	places := [n][n]int{}
	for round := range 2 * n {
		order := Order(n, round)
		seen := map[int]bool{}
		for place, candidate := range order {
			places[candidate][place]++
			seen[candidate] = true
		}
		if len(seen) != n {
			t.Fatalf("round %d runs %v", round, order)
		}
	}
	for candidate, row := range places {
		for place, k := range row {
			if k != 2 {
				t.Errorf("candidate %d ran %d times in place %d, want 2", candidate, k, place)
			}
		}
	}
}

func TestTable(t *testing.T) {
	tab := Table{Head: []string{"", "p50", "p99 µs"}}
	tab.Add("native", "1", "22222222")
	tab.Add("warm gate", "100", "3")
	var text, md strings.Builder
	if err := tab.Write(&text); err != nil {
		t.Fatal(err)
	}
	if err := tab.WriteMarkdown(&md); err != nil {
		t.Fatal(err)
	}
	want := "           p50    p99 µs\nnative       1  22222222\nwarm gate  100         3\n"
	if text.String() != want {
		t.Errorf("text:\n%s\nwant:\n%s", text.String(), want)
	}
	wantMD := "|  | p50 | p99 µs |\n| --- | ---: | ---: |\n| native | 1 | 22222222 |\n| warm gate | 100 | 3 |\n"
	if md.String() != wantMD {
		t.Errorf("markdown:\n%s\nwant:\n%s", md.String(), wantMD)
	}
}

func TestMachineNamesCores(t *testing.T) {
	if m := Machine(); !strings.Contains(m, " × ") || !strings.Contains(m, "go1.") {
		t.Errorf("Machine() = %q", m)
	}
}
