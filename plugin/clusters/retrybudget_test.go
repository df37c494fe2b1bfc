package clusters

import (
	"testing"
	"time"
)

func TestRetryBudget(t *testing.T) {
	const percent = 10
	for _, c := range []struct {
		requests   int // that are no retries
		overloaded bool
		want       int // retries that are allowed, of 100
	}{
		{0, true, FreeRetries},
		{20, true, FreeRetries},
		{90, true, 10},
		{900, true, 100},
		{90, false, 100},
	} {
		var b RetryBudget
		for range c.requests {
			if !b.Allows(time.Hour, false, percent, c.overloaded) {
				t.Fatal("a request that is no retry is refused")
			}
		}
		allowed := 0
		for range 100 {
			if b.Allows(time.Hour, true, percent, c.overloaded) {
				allowed++
			}
		}
		if allowed != c.want {
			t.Errorf("after %d requests, overloaded %v: %d retries are allowed, want %d", c.requests, c.overloaded,
				allowed, c.want)
		}
	}
}

// What was longer ago than ten seconds counts no more.
func TestRetryBudgetForgets(t *testing.T) {
	var b RetryBudget
	at := time.Hour
	for range FreeRetries {
		b.Allows(at, true, 10, true)
	}
	if b.Allows(at+9*time.Second, true, 10, true) {
		t.Error("the budget is forgotten too soon")
	}
	if !b.Allows(at+10*time.Second, true, 10, true) {
		t.Error("the budget is spent for ever")
	}
}

func TestFailedRequestsAreRemembered(t *testing.T) {
	var b RetryBudget
	if b.HasFailed(time.Hour, 7) {
		t.Error("one that was never seen has failed")
	}
	b.Failed(time.Hour, 0)
	if b.HasFailed(time.Hour, 0) {
		t.Error("requests without an id are the same")
	}
	for id := range uint64(2 * maxEnded) {
		b.Failed(time.Hour, id+1)
	}
	if n := b.ended.Len(); n != maxEnded {
		t.Errorf("%d are remembered, want %d", n, maxEnded)
	}
	b.Failed(time.Hour, 7)
	if !b.HasFailed(time.Hour+endedMemory-1, 7) || b.HasFailed(time.Hour+endedMemory, 7) {
		t.Error("not remembered for as long as it should be")
	}
}
