package main

import (
	"math/rand/v2"
	"testing"

	"github.com/warmgate/warmgate/e2e/loadgen"
)

func TestThirds(t *testing.T) {
	for _, tt := range []struct {
		xs          []float64
		first, last float64
	}{
		{[]float64{7}, 7, 7},
		{[]float64{1, 2, 3}, 1, 3},
		{[]float64{9, 1, 2, 5, 5, 5, 30, 10, 20}, 2, 20}, // one outlier in each third does not matter
	} {
		if first, last := thirds(tt.xs); first != tt.first || last != tt.last {
			t.Errorf("thirds(%v) = %v, %v, want %v, %v", tt.xs, first, last, tt.first, tt.last)
		}
	}
}

func TestSomeClientsLeave(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	left := 0
	for i := range 1000 {
		if request(r, i).Leave.At != loadgen.Stay {
			left++
		}
	}
	if left < 50 || left > 150 {
		t.Errorf("%d of 1000 clients leave, want about 100", left)
	}
}
