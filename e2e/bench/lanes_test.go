package bench

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
)

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
