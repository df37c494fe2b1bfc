package regions

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/traffic"
)

// run is one contender in one round of a cell, by their numbers.
type run struct{ cell, round, contender int }

// runs returns all of them, in order: what is compared is played at about the same time.
func runs(rounds int, cells []cell, list []contender) (all []run) {
	for i := range cells {
		for round := range rounds {
			for _, k := range bench.Order(len(list), round) {
				if list[k].playedOn(&cells[i]) {
					all = append(all, run{i, round, k})
				}
			}
		}
	}
	return all
}

// lanes plays runs side by side, each lane on a stage of its own.
type lanes struct {
	settings   *settings
	cells      []cell
	contenders []contender

	mu      sync.Mutex
	of      run // whose scripts are at hand
	scripts *[regions][]traffic.Script
	results [][][]result // by cell, then by contender, then by round; none for a contender that is not played there
}

// playLanes plays every contender in every round of every cell, and returns the results by cell, contender and round.
func playLanes(ctx context.Context, s *settings, cells []cell, list []contender,
	newStage func(ctx context.Context) (*stage, error),
) ([][][]result, error) {
	l, all := &lanes{settings: s, cells: cells, contenders: list}, runs(s.Rounds, cells, list)
	for range cells {
		l.results = append(l.results, make([][]result, len(list)))
	}
	for _, r := range all {
		l.results[r.cell][r.contender] = make([]result, s.Rounds)
	}
	var stages []*stage
	for range s.Lanes {
		st, err := newStage(ctx)
		if err != nil {
			return nil, errors.Join(err, closeAll(stages))
		}
		stages = append(stages, st)
	}
	err := bench.SideBySide(ctx, len(stages), len(all), func(ctx context.Context, lane, i int) error {
		return l.play(ctx, stages[lane], all[i])
	})
	return l.results, errors.Join(err, closeAll(stages))
}

func closeAll(stages []*stage) error {
	var errs []error
	for _, st := range stages {
		errs = append(errs, st.close())
	}
	return errors.Join(errs...)
}

// play plays one run on a stage.
func (l *lanes) play(ctx context.Context, st *stage, at run) error {
	cell, c := &l.cells[at.cell], &l.contenders[at.contender]
	r, err := c.play(ctx, st, l.settings, cell.users(), *l.scriptsOf(at))
	if err != nil {
		return fmt.Errorf("%s: %s: %w", cell.key(), c.name, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.results[at.cell][at.contender][at.round] = r
	fmt.Printf("%-20s  round %d  %-21s  %s\n", cell.key(), at.round+1, c.name, columns.Show(&r))
	return nil
}

// scriptsOf returns what the users send in a run: the same in all of a round.
func (l *lanes) scriptsOf(at run) *[regions][]traffic.Script {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.scripts == nil || at.cell != l.of.cell || at.round != l.of.round {
		written := l.cells[at.cell].scripts(l.settings.Seed + uint64(at.round))
		l.of, l.scripts = at, &written
	}
	return l.scripts
}
