package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
)

func double(n *int) float64 { return 2 * float64(*n) }

func TestRuns(t *testing.T) {
	var rs Runs[int]
	rs.AddAll("x", []string{"ours", "theirs"}, [][]int{{2, 4}, {1, 8}})
	rs.Add("y", "ours", 5)
	if got := rs.Of("x", "ours"); !slices.Equal(got, []int{2, 4}) || rs.Of("y", "theirs") != nil {
		t.Errorf("%v, %v", got, rs.Of("y", "theirs"))
	}
	s := rs.Spread("x", "ours", double)
	if *s != (Spread{Median: 6, Min: 4, Max: 8}) || rs.Spread("z", "ours", double) != nil {
		t.Errorf("%+v", s)
	}
	if m := rs.Median("y", "ours", double); *m != 10 || rs.Median("y", "theirs", double) != nil {
		t.Errorf("%v", *m)
	}
	// Round by round, not of medians.
	if s := rs.Ratio("x", "ours", "theirs", double); *s != (Spread{Median: 1.25, Min: 0.5, Max: 2}) {
		t.Errorf("%+v", s)
	}
	if rs.Ratio("y", "ours", "theirs", double) != nil || rs.Ratio("y", "theirs", "ours", double) != nil {
		t.Error("a ratio to one that was not played")
	}
	if n := rs.Count(func(n *int) int { return *n }); n != 20 {
		t.Errorf("%d in all", n)
	}
	table := rs.Tabulate(Columns[int]{Col("n", "%.0f", double)}, "who")
	if got := fmt.Sprint(table.Rows); got != "[[x, ours 6 (4..8)] [x, theirs 9 (2..16)] [y, ours 10 (10..10)]]" {
		t.Error(got)
	}
	rs.Drop("x", "theirs")
	rs.Drop("*", "ours")
	rs.Each(func(cell, contender string, _ []int) { t.Errorf("%s, %s is left", cell, contender) })
}

func TestPlay(t *testing.T) {
	var rs Runs[string]
	columns := Columns[string]{Col("length", "%.0f", func(s *string) float64 { return float64(len(*s)) })}
	play := func(of string, i int) (string, error) {
		if of == "round 2" {
			return "", errors.New("too late")
		}
		return fmt.Sprint(of, i), nil
	}
	of := func(round int) (string, error) { return fmt.Sprint("round ", round), nil }
	if err := Play(&rs, columns, "x", 2, []string{"a", "b"}, of, play); err != nil {
		t.Fatal(err)
	}
	if a, b := rs.Of("x", "a"), rs.Of("x", "b"); fmt.Sprint(a, b) != "[round 00 round 10] [round 01 round 11]" {
		t.Error(a, b)
	}
	if run := "four"; columns.Show(&run) != "length 4" {
		t.Error(columns.Show(&run))
	}
	if err := Play(&rs, columns, "x", 3, []string{"a", "b"}, of, play); err == nil || err.Error() != "a: too late" &&
		err.Error() != "b: too late" {
		t.Error(err)
	}
}

func TestPlaySideBySide(t *testing.T) {
	var rs Runs[int]
	play := func(_ context.Context, lane, round, i int) (int, error) {
		if round == 2 || lane < 0 || lane > 1 {
			return 0, errors.New("too late")
		}
		return 10*round + i, nil
	}
	if err := PlaySideBySide(t.Context(), &rs, nil, "x", 2, 2, []string{"a", "b", "c"}, play); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(rs.Of("x", "a"), rs.Of("x", "b"), rs.Of("x", "c")); got != "[0 10] [1 11] [2 12]" {
		t.Error(got)
	}
	var order []int
	note := func(_ context.Context, _, _, i int) (int, error) { order = append(order, i); return 0, nil }
	if err := PlaySideBySide(t.Context(), &rs, nil, "y", 1, 2, []string{"a", "b", "c"}, note); err != nil ||
		fmt.Sprint(order) != "[0 1 2 1 2 0]" {
		t.Error(order, err)
	}
	if err := PlaySideBySide(t.Context(), &rs, nil, "x", 1, 3, []string{"a"}, play); err == nil ||
		err.Error() != "a: too late" {
		t.Error(err)
	}
}

func TestLine(t *testing.T) {
	l := Line{}
	l.Figure("a", &Spread{Median: 2, Min: 1, Max: 3})
	l.Figure("b", nil)
	l.Spread("c", &Spread{Median: 1})
	l.Spread("d", nil)
	l.Number("e", nil)
	five := 5.0
	l.Number("f", &five)
	for _, x := range []float64{3, 2, 4} {
		l.Worst("least", x, false)
		l.Worst("most", x, true)
	}
	Medians(l, []int{1, 4}, map[string]func(*int) float64{"m": double})
	text, err := json.Marshal(l)
	const want = `{"a":2,"a_spread":{"median":2,"min":1,"max":3},"c":{"median":1,"min":0,"max":0},"f":5,"least":2,"m":5,"most":4}`
	if string(text) != want || err != nil {
		t.Errorf("%s, %v", text, err)
	}
	targets := []Target{{"a", 2, false}, {"f", 5, true}}
	if !l.Meets(targets) || len(l.Missed(targets)) > 0 {
		t.Errorf("missed %v", l.Missed(targets))
	}
	targets = append(targets, Target{"f", 4.9, false}, Target{"a", 2.1, true}, Target{"b", 1, false})
	if got := TargetNames(l.Missed(targets)); !slices.Equal(got, []string{"f", "a"}) || l.Meets(targets) {
		t.Errorf("missed %v", got)
	}
	if l.Meets([]Target{{"b", 1, false}}) || l.Meets([]Target{{"b", 1, true}}) {
		t.Error("a target that was not measured is met")
	}
}

func TestNotes(t *testing.T) {
	var n Notes
	n.Note("%d are left out", 2)
	if !slices.Equal(n, Notes{"2 are left out"}) {
		t.Errorf("%q", n)
	}
}

func TestSideBySide(t *testing.T) {
	var mu sync.Mutex
	var played []int
	under, most := 0, 0
	meet := make(chan bool)
	err := SideBySide(context.Background(), 2, 6, func(_ context.Context, lane, i int) error {
		mu.Lock()
		played = append(played, i)
		under++
		most = max(most, under)
		mu.Unlock()
		if i < 2 { // these two are under way at the same time
			select {
			case meet <- true:
			case <-meet:
			}
		}
		mu.Lock()
		defer mu.Unlock()
		under--
		if lane < 0 || lane > 1 {
			t.Errorf("lane %d", lane)
		}
		return nil
	})
	slices.Sort(played)
	if err != nil || most != 2 || !slices.Equal(played, []int{0, 1, 2, 3, 4, 5}) {
		t.Errorf("%v, played %v, %d at a time", err, played, most)
	}
	bad := errors.New("bad")
	n := 0
	if err := SideBySide(context.Background(), 1, 9, func(_ context.Context, _, i int) error {
		if n++; i == 2 {
			return bad
		}
		return nil
	}); !errors.Is(err, bad) || n != 3 {
		t.Errorf("%v after %d runs", err, n)
	}
}
