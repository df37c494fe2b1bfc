package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// Runs are what contenders did, by cell, by contender and by round. A cell is what all of them are compared on: a
// workload, a load, or a size; a benchmark with a single one calls it "".
type Runs[R any] struct {
	cells, contenders []string // in the order of the table
	played            map[[2]string][]R
}

// Add appends runs of a contender in a cell. Tables are in the order in which cells and contenders came first.
func (rs *Runs[R]) Add(cell, contender string, runs ...R) {
	if !slices.Contains(rs.cells, cell) {
		rs.cells = append(rs.cells, cell)
	}
	if !slices.Contains(rs.contenders, contender) {
		rs.contenders = append(rs.contenders, contender)
	}
	if rs.played == nil {
		rs.played = map[[2]string][]R{}
	}
	at := [2]string{cell, contender}
	rs.played[at] = append(rs.played[at], runs...)
}

// AddAll appends the runs of all contenders in a cell, in the order of their names.
func (rs *Runs[R]) AddAll(cell string, contenders []string, runs [][]R) {
	for i, name := range contenders {
		rs.Add(cell, name, runs[i]...)
	}
}

// Drop forgets a contender, in one cell or, if that is "*", in all.
func (rs *Runs[R]) Drop(cell, contender string) {
	for at := range rs.played {
		if at[1] == contender && (cell == "*" || at[0] == cell) {
			delete(rs.played, at)
		}
	}
}

// Of returns the runs of a contender in a cell, by round; none if it was not played there.
func (rs *Runs[R]) Of(cell, contender string) []R { return rs.played[[2]string{cell, contender}] }

// Each calls f with the runs of every contender that was played, in the order of the table.
func (rs *Runs[R]) Each(f func(cell, contender string, runs []R)) {
	for _, cell := range rs.cells {
		for _, contender := range rs.contenders {
			if runs := rs.Of(cell, contender); len(runs) > 0 {
				f(cell, contender, runs)
			}
		}
	}
}

// Count sums a number over all runs.
func (rs *Runs[R]) Count(of func(*R) int) (sum int) {
	for _, runs := range rs.played {
		for i := range runs {
			sum += of(&runs[i])
		}
	}
	return sum
}

// Spread returns that of a quantity of a contender; nil if it was not played.
func (rs *Runs[R]) Spread(cell, contender string, of func(*R) float64) *Spread {
	runs := rs.Of(cell, contender)
	if len(runs) == 0 {
		return nil
	}
	s := SpreadBy(runs, of)
	return &s
}

// Median returns that of a quantity of a contender; nil if it was not played.
func (rs *Runs[R]) Median(cell, contender string, of func(*R) float64) *float64 {
	return rs.Spread(cell, contender, of).median()
}

// Ratio divides a quantity of a contender by that of another one, round by round; nil if either was not played.
func (rs *Runs[R]) Ratio(cell, contender, over string, of func(*R) float64) *Spread {
	ours, theirs := rs.Of(cell, contender), rs.Of(cell, over)
	if len(ours) == 0 || len(theirs) == 0 {
		return nil
	}
	s := RatioBy(ours, theirs, of)
	return &s
}

// Tabulate returns a table with a row for each contender that was played in each cell.
func (rs *Runs[R]) Tabulate(columns Columns[R], first string) *Table {
	t := columns.Table(first)
	rs.Each(func(cell, contender string, runs []R) {
		if cell != "" {
			contender = cell + ", " + contender
		}
		t.Add(columns.Row(runs, contender)...)
	})
	return t
}

// Play has contenders play in a cell once a round, in the order of Rounds, keeps what they did and prints it. All of a
// round meet what prepare returns.
func Play[T, R any](rs *Runs[R], columns Columns[R], cell string, rounds int, contenders []string,
	prepare func(round int) (T, error), play func(of T, i int) (R, error),
) error {
	var of T
	results, err := Rounds(rounds, len(contenders), func(round int) (err error) {
		of, err = prepare(round)
		return err
	}, func(round, i int) (R, error) {
		r, err := play(of, i)
		if err != nil {
			return r, fmt.Errorf("%s: %w", contenders[i], err)
		}
		fmt.Printf("%-12s  round %d  %-24s  %s\n", cell, round+1, contenders[i], columns.Show(&r))
		return r, nil
	})
	if err == nil {
		rs.AddAll(cell, contenders, results)
	}
	return err
}

// PlaySideBySide is Play in several lanes: plays that are next to each other in its order run at the same time. play
// gets its lane, the round and the number of the contender.
func PlaySideBySide[R any](ctx context.Context, rs *Runs[R], columns Columns[R], cell string, lanes, rounds int,
	contenders []string, play func(ctx context.Context, lane, round, i int) (R, error),
) error {
	n := len(contenders)
	results := make([][]R, n)
	for i := range results {
		results[i] = make([]R, rounds)
	}
	err := SideBySide(ctx, lanes, rounds*n, func(ctx context.Context, lane, k int) error {
		round := k / n
		i := Order(n, round)[k%n]
		r, err := play(ctx, lane, round, i)
		if err != nil {
			return fmt.Errorf("%s: %w", contenders[i], err)
		}
		results[i][round] = r
		fmt.Printf("%-12s  round %d  %-24s  %s\n", cell, round+1, contenders[i], columns.Show(&r))
		return nil
	})
	if err == nil {
		rs.AddAll(cell, contenders, results)
	}
	return err
}

// SideBySide plays n runs in their order, each in the lane that is free first. It returns the first error, after which
// no run begins, once those under way have ended.
func SideBySide(ctx context.Context, lanes, n int, play func(ctx context.Context, lane, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	next := 0
	take := func() int {
		mu.Lock()
		defer mu.Unlock()
		next++
		return next - 1
	}
	var wg sync.WaitGroup
	for lane := range lanes {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := take(); i < n && ctx.Err() == nil; i = take() {
				if err := play(ctx, lane, i); err != nil {
					cancel(err)
				}
			}
		}()
	}
	wg.Wait()
	return context.Cause(ctx)
}
