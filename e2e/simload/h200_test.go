package simload

import "testing"

// TestLikeRealEngines holds that the median TTFT of each policy is within 15 % of what it was on real engines, and that
// cached shares differ by no more than 2 points on average.
func TestLikeRealEngines(t *testing.T) {
	ttft, cached, err := LikeRealEngines(t.Logf)
	if err != nil || ttft > 0.15 || cached > 0.02 {
		t.Errorf("median TTFT differs by %.3f of that on real engines, cached shares by %.3f, %v", ttft, cached, err)
	}
}
