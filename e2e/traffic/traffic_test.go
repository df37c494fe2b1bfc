package traffic

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/internal/mooncake"
)

// TestRedraw takes distributions in turn, each for two scripts.
func TestRedraw(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	scripts := Conversations(r, 7, nil, 3, 5, 5)
	Redraw(r, scripts, 2, loadgen.Fixed(11), loadgen.Fixed(13))
	for i, want := range []int{11, 11, 13, 13, 11, 11, 13} {
		for _, turn := range scripts[i].Turns {
			if turn.Answer != want {
				t.Errorf("script %d has an answer of %d tokens, want %d", i, turn.Answer, want)
			}
		}
	}
}

func TestAround(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	sum, least, most := 0, 1<<30, 0
	for range 10_000 {
		n := Around(r, 200)
		sum, least, most = sum+n, min(least, n), max(most, n)
	}
	if mean := sum / 10_000; mean < 197 || mean > 203 || least < 100 || most > 300 || most-least < 190 {
		t.Errorf("around 200: mean %d, %d to %d", mean, least, most)
	}
	if Around(r, 1) != 1 {
		t.Error("around 1 is not 1")
	}
}

// TestSessions checks that a conversation of a trace goes on with what is new of its next prompt, that one no longer
// than the last begins another, and that those that are too long are left out.
func TestSessions(t *testing.T) {
	trace := []mooncake.Request{
		{Input: 1024, Output: 256, HashIDs: []int{0, 7}},
		{Input: 600, Output: 64, HashIDs: []int{0, 8}},
		{Input: 1536, Output: 128, HashIDs: []int{0, 7, 9}},
		{Input: 1500, Output: 128, HashIDs: []int{0, 7, 10}},
		{Input: 1 << 14, Output: 8, HashIDs: make([]int, 1<<14/mooncake.Block)},
	}
	var got [][]int
	for _, s := range Sessions(trace, 1, 16, 1000) {
		var of []int
		for _, turn := range s.Turns {
			of = append(of, turn.Parent, len(turn.Add[0].Content)/bytesPerToken, turn.Answer)
		}
		got = append(got, of)
	}
	if want := [][]int{{-1, 64, 16, 0, 16, 8}, {-1, 37, 4}, {-1, 93, 8}}; !reflect.DeepEqual(got, want) {
		t.Errorf("parents, tokens and answers %v, want %v", got, want)
	}
}
