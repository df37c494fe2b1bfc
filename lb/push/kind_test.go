package push

import "testing"

// A kind of Push is read by its own name only.
func TestPushNames(t *testing.T) {
	for p := Blind; p <= Pending; p++ {
		var got Kind
		if err := got.UnmarshalText([]byte(p.String())); err != nil || got != p {
			t.Errorf("%v: got %v, %v", p, got, err)
		}
	}
	for _, name := range []string{"", "Blind", "pending "} {
		p := Outstanding
		if err := p.UnmarshalText([]byte(name)); err == nil || p != Outstanding {
			t.Errorf("%q: got %v, %v", name, p, err)
		}
	}
}
