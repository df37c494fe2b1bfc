package config

import "testing"

// The previous secret is one that nobody guesses, too, and another one.
func TestPreviousSecret(t *testing.T) {
	for value, want := range map[string]string{
		`"short"`:                     "got a string of 5 bytes, want a string of 16 to 1024 bytes, the one that regions.secret replaces",
		regionValues[keyRegionSecret]: "got the same as secret, want the one that it replaces",
	} {
		if what := refused(t, regionConfig(member{keyRegionBefore, value}), Higress, keyRegionBefore); what != want {
			t.Errorf("%s: got %q, want %q", value, what, want)
		}
	}
}
