package bench

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestSpreadOf(t *testing.T) {
	for _, tc := range []struct {
		in   []float64
		want Spread
	}{
		{nil, Spread{}},
		{[]float64{4}, Spread{4, 4, 4, nil}},
		{[]float64{9, 1, 5}, Spread{5, 1, 9, nil}},
		{[]float64{8, 1, 2, 4}, Spread{3, 1, 8, nil}},
	} {
		if got := SpreadOf(tc.in); got != tc.want {
			t.Errorf("SpreadOf(%v) = %v, want %v", tc.in, got, tc.want)
		}
	}
	// All of six measurements are above the median, or all are below it, by chance in 1 of 32 cases: less than 1 in 20.
	if six := SpreadOf([]float64{6, 5, 4, 3, 2, 1}); six.CI == nil || *six.CI != [2]float64{1, 6} || six.Median != 3.5 {
		t.Errorf("SpreadOf six values = %+v", six)
	} else if got := six.Format("%.1f"); got != "3.5 (1.0..6.0) [1.0, 6.0]" {
		t.Errorf("Format = %q", got)
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

// TestRatiosPair checks that a disturbance common to both of a pair does not show.
func TestRatiosPair(t *testing.T) {
	if got := Ratios([]float64{2, 20, 200}, []float64{1, 10, 100}); got != (Spread{2, 2, 2, nil}) {
		t.Errorf("Ratios = %v, want 2 throughout", got)
	}
	if got := Ratios([]float64{0, 3}, []float64{0, 3}); got != (Spread{1, 1, 1, nil}) {
		t.Errorf("Ratios of nothing = %v, want 1", got)
	}
	if got := Ratios([]float64{2, 4}, []float64{1}); got != (Spread{2, 2, 2, nil}) {
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

func TestRounds(t *testing.T) {
	var begun []int
	prepare := func(round int) error {
		begun = append(begun, round)
		return nil
	}
	play := func(round, i int) (int, error) { return 10*i + round, nil }
	results, err := Rounds(2, 3, prepare, play)
	if want := [][]int{{0, 1}, {10, 11}, {20, 21}}; err != nil || !reflect.DeepEqual(results, want) || len(begun) != 2 {
		t.Errorf("%v, %v, begun %v; want %v", results, err, begun, want)
	}
	broken := func(int) error { return errors.New("broken") }
	if _, err := Rounds(1, 1, broken, play); err == nil {
		t.Error("a round that cannot be prepared was played")
	}
}

func TestColumns(t *testing.T) {
	cs := Columns[int]{{"n", "%.0f", func(n *int) float64 { return float64(*n) }}}
	table := cs.Table("who")
	table.Add(cs.Row([]int{3, 1, 2}, "a")...)
	if got := fmt.Sprint(table.Head, table.Rows); got != "[who n] [[a 2 (1..3)]]" {
		t.Error(got)
	}
	if got := RatioBy([]int{2, 6}, []int{1, 2}, cs[0].Of); got.Median != 2.5 {
		t.Errorf("ratio %v", got)
	}
}

func TestLast(t *testing.T) {
	table := &Table{Head: []string{"a", "b"}, Rows: [][]string{{"1", "2"}, {"3", "4"}, {"5", "6"}}}
	if got := table.Last(2); got != "3  4\n5  6" {
		t.Errorf("%q", got)
	}
}

func TestList(t *testing.T) {
	whole, any := List[int]{7}, List[float64]{}
	if err := whole.Set("1, 16,256"); err != nil || whole.String() != "1,16,256" {
		t.Errorf("%v, %v", whole.String(), err)
	}
	if err := any.Set("0.5,2"); err != nil || any.String() != "0.5,2" {
		t.Errorf("%v, %v", any.String(), err)
	}
	for _, bad := range []string{"", "1,,2", "0", "-1", "x", "NaN", "Inf", "1e99"} {
		if whole.Set(bad) == nil || any.Set(bad) == nil {
			t.Errorf("%q is read as %v, %v", bad, whole, any)
		}
	}
	if whole.Set("0.5") == nil {
		t.Errorf("read as %v", whole)
	}
}

func TestPublish(t *testing.T) {
	table := &Table{Head: []string{"what", "n"}}
	table.Add("a", "1")
	configuration := []string{"load: little"}
	file := filepath.Join(t.TempDir(), "b.md")
	var out strings.Builder
	if err := Publish(&out, file, configuration, table, map[string]int{"bench": 1}); err != nil {
		t.Fatal(err)
	}
	run := strings.Join(common(), "\n")
	if want := "\n" + run + "\nload: little\n\nwhat  n\na     1\n{\"bench\":1}\n"; out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
	text, err := os.ReadFile(file)
	onPage := "- " + strings.ReplaceAll(run, "\n", "\n- ")
	want := "<!-- bench-b -->\n\n" + onPage + "\n- load: little\n\n| what | n |\n| --- | ---: |\n| a | 1 |\n\n" +
		"<!-- /bench-b -->\n"
	if err != nil || string(text) != want {
		t.Errorf("saved %q, %v, want %q", text, err, want)
	}
	out.Reset()
	if err := Publish(&out, file, nil, table, 1, table); err != nil || out.String() != "\n"+run+"\n\nwhat  n\na     "+
		"1\n\nwhat  n\na     1\n1\n" {
		t.Errorf("two tables: %q, %v", out.String(), err)
	}
	if text, err := os.ReadFile(file); err != nil || strings.Count(string(text), "\n| what |") != 2 {
		t.Errorf("two tables saved: %q, %v", text, err)
	}
	if err := Publish(&out, "", configuration, table, nil); err != nil {
		t.Errorf("without a file: %v", err)
	}
	if err := Publish(&out, filepath.Join(file, "x"), configuration, table, nil); err == nil {
		t.Error("saved into a file as if it were a folder")
	}
}

// TestPublishIntoPage replaces the run of a page, and nothing else.
func TestPublishIntoPage(t *testing.T) {
	const mark, end = "<!-- bench-page -->\n", "<!-- /bench-page -->\n"
	now := mark + "\n- " + strings.Join(common(), "\n- ") + "\n- now\n\n| n |\n| --- |\n\n" + end
	other := "<!-- bench-page-redis -->\nold\n<!-- /bench-page-redis -->\n"
	for before, want := range map[string]string{
		"# Page\n\n" + mark + "old\n" + end + "\nWhy.\n" + other: "# Page\n\n" + now + "\nWhy.\n" + other,
		"# Page\n\n" + other: "# Page\n\n" + other + now,
	} {
		file := filepath.Join(t.TempDir(), "page.md")
		if err := os.WriteFile(file, []byte(before), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := Publish(io.Discard, file, []string{"now"}, &Table{Head: []string{"n"}}, 1); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(file); err != nil || string(text) != want {
			t.Errorf("%q became %q, %v, want %q", before, text, err, want)
		}
	}
}
