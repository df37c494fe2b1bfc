package traffic

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestChats checks that the seed of the words changes the words alone, and that lengths are within their bounds.
func TestChats(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Chats{
			Seed: rapid.Uint64().Draw(t, "seed"), Words: rapid.Uint64Max(1<<40).Draw(t, "words"),
			Sessions: rapid.IntRange(1, 8).Draw(t, "sessions"), Turns: rapid.IntRange(1, 5).Draw(t, "turns"),
			Systems: []int{20, 30}, Question: Spread{40, 1, 10, 90}, Answer: Spread{7, 1, 2, 30}, Rate: 2,
			Pause: time.Second,
		}
		other := c
		other.Words++
		a, b := c.Scripts(), other.Scripts()
		if again := c.Scripts(); !reflect.DeepEqual(a, again) {
			t.Fatal("the same seeds wrote something else")
		}
		for i := range a {
			if a[i].Session != b[i].Session || a[i].Due != b[i].Due || i > 0 && a[i].Due < a[i-1].Due {
				t.Fatalf("sessions %s and %s at %v and %v", a[i].Session, b[i].Session, a[i].Due, b[i].Due)
			}
			for k := range a[i].Turns {
				sameShape(t, &a[i].Turns[k], &b[i].Turns[k], k)
			}
		}
	})
}

// sameShape requires that turn k of two conversations differs in its words alone.
func sameShape(t *rapid.T, a, b *Turn, k int) {
	if a.Parent != k-1 || a.Answer != b.Answer || a.Think != b.Think || (a.Think == 0) != (k == 0) ||
		a.Answer < 2 || a.Answer > 30 || len(a.Add) != len(b.Add) {
		t.Fatalf("turn %d: %+v, %+v", k, a, b)
	}
	for m := range a.Add {
		ours, theirs := strings.Fields(a.Add[m].Content), strings.Fields(b.Add[m].Content)
		if len(ours) != len(theirs) || len(ours) < 10 || len(ours) > 90 || reflect.DeepEqual(ours, theirs) {
			t.Fatalf("messages of %d and %d words", len(ours), len(theirs))
		}
	}
}
