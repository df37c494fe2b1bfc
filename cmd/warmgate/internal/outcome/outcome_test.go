package outcome

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/internal/simulate"
)

// TestNothingServed holds that a run of which nothing is known is shown as such.
func TestNothingServed(t *testing.T) {
	runs := []Run{{Result: &simulate.Result{
		Policy: "<b>", Endpoints: 2, Requests: 3, Refused: map[string]int{"at_capacity": 2, "queue_timeout": 1},
		Every: time.Second, Points: []simulate.Point{{Sent: 3, Refused: 3}},
	}, Cost: 1}}
	var page, table, csv strings.Builder
	for _, err := range []error{
		HTML(&page, []string{"about <i>"}, runs), Print(&table, "table", runs), Print(&csv, "csv", runs),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, bad := range []string{"NaN", "Inf", "<b>", "<i>"} {
		if strings.Contains(page.String(), bad) {
			t.Errorf("the page has %q:\n%s", bad, page.String())
		}
	}
	if row := strings.Split(table.String(), "\n")[1]; !strings.Contains(row, " 3 ") || !strings.HasSuffix(row, " -") {
		t.Errorf("%s", table.String())
	}
	row := strings.Split(csv.String(), "\n")[1]
	if !strings.HasPrefix(row, "<b>,2,0,3,,,,,,,,,,0,") || !strings.HasSuffix(row, ",1,") {
		t.Errorf("%s", csv.String())
	}
	if err := Print(&csv, "xml", runs); err == nil {
		t.Error("a format that there is not was printed")
	}
}

func TestTicksAreRound(t *testing.T) {
	for _, c := range []struct {
		axis axis
		want []float64
	}{
		{axis{least: 0, most: 10}, []float64{0, 2.5, 5, 7.5, 10}},
		{axis{least: 3, most: 47}, []float64{10, 20, 30, 40}},
		{axis{least: 8, most: 300, log: true}, []float64{10, 20, 50, 100, 200}},
	} {
		if got := c.axis.ticks(); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v, want %v", c.axis, got, c.want)
		}
	}
	a := axis{least: 1, most: 100, from: 0, to: 200, log: true}
	if at := a.at(10); at < 99.9 || at > 100.1 || a.at(0) != 0 {
		t.Errorf("10 of 1 to 100 is at %v of 200, 0 at %v", at, a.at(0))
	}
}
