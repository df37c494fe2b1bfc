package core

import (
	"testing"
	"time"
)

func TestAnswerTimes(t *testing.T) {
	var a answerTimes
	want := func(want time.Duration) {
		t.Helper()
		if got := a.typical(); got != want {
			t.Errorf("nine of ten answers within %v, want %v", got, want)
		}
	}
	a.addIncomplete(time.Hour) // of which nothing is known
	want(0)
	a.add(3 * time.Second)
	want(3 * time.Second)
	for i := range 9 {
		a.add(time.Duration(1+i) * time.Millisecond)
	}
	want(9 * time.Millisecond)
	a.addIncomplete(8 * time.Millisecond)
	want(9 * time.Millisecond)
	a.addIncomplete(4 * time.Second) // two of eleven take seconds
	want(3 * time.Second)
	for range len(a.times) {
		a.add(5 * time.Second)
	}
	want(5 * time.Second)
}
