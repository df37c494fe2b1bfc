package policy_test

import (
	"testing"

	"github.com/warmgate/warmgate/lb/policy"
)

// Each name and each alias is that of one policy, which is described in both languages.
func TestDescriptors(t *testing.T) {
	known := map[string]bool{}
	for _, d := range policy.All() {
		for _, name := range append([]string{d.Name}, d.Aliases...) {
			if known[name] || policy.Describe(name) != d {
				t.Errorf("%s is the name of several policies, or of none", name)
			}
			known[name] = true
		}
		if d.New == nil || d.Meaning.EN == "" || d.Meaning.ZH == "" || (d.Settings == nil) != (len(d.Keys) == 0) {
			t.Errorf("%s is not complete: %+v", d.Name, d)
		}
		if !d.Needs.Prompt {
			continue
		}
		if _, ok := d.Settings().(*policy.CacheConfig); !ok || d.Needs.Tokens == "" {
			t.Errorf("%s needs prompts, and does not configure blocks or does not count tokens", d.Name)
		}
	}
	if d := policy.Describe("roulette"); d.New != nil || d.Needs != (policy.Needs{}) {
		t.Errorf("an unknown policy: %+v", d)
	}
}
