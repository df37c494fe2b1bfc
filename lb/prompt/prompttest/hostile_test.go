package prompttest

import (
	"encoding/json"
	"testing"
)

// The bodies have the requested length, and are valid where they are declared so.
func TestHostile(t *testing.T) {
	names := map[string]bool{}
	for _, size := range []int{100, 4 << 10, 256 << 10} {
		for _, b := range Hostile(size) {
			if len(b.JSON) > size || len(b.JSON) < size-100 && b.Name != "deep" {
				t.Errorf("%s: %d bytes, want nearly %d", b.Name, len(b.JSON), size)
			}
			if valid := json.Valid(b.JSON); valid != b.Good && b.Name != "model twice" {
				t.Errorf("%s: valid %v", b.Name, valid)
			}
			names[b.Name] = true
		}
		if len(names) != len(Hostile(size)) {
			t.Errorf("%d names for %d bodies", len(names), len(Hostile(size)))
		}
	}
}
