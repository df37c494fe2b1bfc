package simload

import "testing"

// TestSharedEngines holds that engines which share a GPU are close to real ones in all that their users saw: mean TTFT
// and mean time between tokens, by policy, and those of single prompts.
func TestSharedEngines(t *testing.T) {
	ttft, token, single, err := SharedError(t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("TTFT is off by %.3f, at most %.3f; times between tokens by %.3f, at most %.3f; single prompts by %.3f, "+
		"at most %.3f", ttft.Mean, ttft.Most, token.Mean, token.Most, single.Mean, single.Most)
	for _, o := range []struct {
		of         Off
		mean, most float64
	}{{ttft, 0.07, 0.2}, {token, 0.07, 0.14}, {single, 0.12, 0.15}} {
		if o.of.Mean > o.mean || o.of.Most > o.most {
			t.Errorf("off by %.3f on average and %.3f at most, want %.2f and %.2f", o.of.Mean, o.of.Most, o.mean,
				o.most)
		}
	}
}
