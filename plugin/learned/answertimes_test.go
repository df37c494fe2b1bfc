package learned

import (
	"testing"
	"time"
)

func TestAnswerTimes(t *testing.T) {
	var a AnswerTimes
	want := func(want time.Duration) {
		t.Helper()
		if got := a.Typical(); got != want {
			t.Errorf("nine of ten answers within %v, want %v", got, want)
		}
	}
	a.AddIncomplete(time.Hour) // of which nothing is known
	want(0)
	a.Add(3 * time.Second)
	want(3 * time.Second)
	for i := range 9 {
		a.Add(time.Duration(1+i) * time.Millisecond)
	}
	want(9 * time.Millisecond)
	a.AddIncomplete(8 * time.Millisecond)
	want(9 * time.Millisecond)
	a.AddIncomplete(4 * time.Second) // two of eleven take seconds
	want(3 * time.Second)
	for range len(a.times) {
		a.Add(5 * time.Second)
	}
	want(5 * time.Second)
}
