package memstore

import (
	"reflect"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
)

// withBudgets returns a table of n rows with the section.
func withBudgets(t *testing.T, n int, b *budgets) table {
	t.Helper()
	out := tableOf(t, hashesUpTo(n))
	return table(b.append(out))
}

func someBudgets() *budgets {
	b := &budgets{last: 1, refusals: budget.Refusals{{Key: 1, Since: 2, Expires: 3, Tokens: 4, Row: 5}}}
	b.put(1, budget.State{
		At: 1, MissingTokens: 2, MissingRequests: 3, Deficit: -4, Closed: 5,
		TokenRate: 6, RequestRate: 7, TakenAt: 8, Interval: 9, Told: 10, Asks: 1,
	})
	b.tasks = b.tasks.add(lb.TaskID{1, 2}, 3, 4, 5*time.Second, 6*time.Second, 7, 1)
	return b
}

func TestBudgetsAreReadAsTheyWereWritten(t *testing.T) {
	want := someBudgets()
	tab := withBudgets(t, 3, want)
	var got budgets
	if got.read(tab); tab.check() != nil || !reflect.DeepEqual(&got, want) {
		t.Fatalf("%v: %+v, want %+v", tab.check(), got, *want)
	}
	if tab.hasQueue() || !tab.isFor("scope") || tab.isIdle() {
		t.Error("the sections of the table are not found")
	}
	if !tab.isUnbudgeted(0) || tab.isUnbudgeted(1) || !tab.isUnbudgeted(2) {
		t.Error("rows with a budget are not found")
	}
}

func TestUnusedBudgetsTakeNoSpace(t *testing.T) {
	tab := withBudgets(t, 3, &budgets{last: 2, states: make([]byte, 3*stateSize)})
	if tab.hasBudgets() || tab.check() != nil {
		t.Error("a section without anything in it was written")
	}
}

// Whatever is cut off or changed, a table is either damaged or its parts are in it.
func TestDamagedBudgets(t *testing.T) {
	tab := withBudgets(t, 3, someBudgets())
	for n := range len(tab) {
		if cut := tab[:n]; cut.check() == nil && cut.hasBudgets() {
			t.Errorf("%d of %d bytes are no damaged table", n, len(tab))
		}
	}
	for at := tab.budgetAt(); at < tab.budgetAt()+budgetHeader; at++ {
		for _, b := range []byte{0, 1, 7, 255} {
			changed := append(table(nil), tab...)
			if changed[at] = b; changed.check() != nil {
				continue
			}
			var got budgets
			got.read(changed)
		}
	}
}

func TestRowsWithBudgetsAreKept(t *testing.T) {
	b := &budgets{last: noRow}
	b.put(39, budget.State{Deficit: 1})
	b.put(3, budget.State{MissingTokens: 1})
	tab := withBudgets(t, 40, b)
	var wanted []uint64
	for i := range 20 {
		wanted = append(wanted, uint64(1000+i))
	}
	tab, err := tab.withRows(wanted)
	if err != nil || tab.rows() != 40 || tab.hash(3) != 4 || tab.hash(39) != 40 {
		t.Errorf("%v, %d rows", err, tab.rows())
	}
}

// The slot of a scope is kept while a bucket is not full, and given away later.
func TestBudgetsThatAreUnusedAreForgotten(t *testing.T) {
	d := &draft{}
	b := &budgets{last: 0}
	b.put(0, budget.State{At: 1000, MissingTokens: 600, TokenRate: 600, TakenAt: 1000})
	tab := withBudgets(t, 1, b)
	for _, c := range []struct {
		at   time.Duration
		want bool
	}{{30 * time.Second, false}, {60 * time.Second, false}, {61 * time.Second, true}} {
		d.open(c.at, nil, append(table(nil), tab...))
		if tidied := d.tidyBudgets(c.at); tidied != c.want {
			t.Errorf("%v: forgotten %v", c.at, tidied)
		}
		d.close(c.at)
		if d.hasBudgets() == c.want || d.isIdle() != c.want || d.check() != nil {
			t.Errorf("%v: budgets %v, idle %v", c.at, d.hasBudgets(), d.isIdle())
		}
	}
	d.open(time.Hour, nil, append(table(nil), tab...))
	d.addLoad(0, lb.Load{Requests: 1})
	if d.tidyBudgets(time.Hour) {
		t.Error("the budget of an endpoint with a request was forgotten")
	}
}
