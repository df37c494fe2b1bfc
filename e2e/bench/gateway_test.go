package bench

import (
	"math"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/harness"
)

func TestCPUSince(t *testing.T) {
	before, err := parseCPU("cpu  100 10 50 800 40 5 5 0 7 0\ncpu0 1 2 3\n")
	if err != nil {
		t.Fatal(err)
	}
	after, err := parseCPU("cpu  150 10 70 860 50 5 5 10 9 0\n")
	if err != nil {
		t.Fatal(err)
	}
	if got := after.Since(before); math.Abs(got-80./150) > 1e-9 { // 50 user, 20 system, 10 stolen of 150
		t.Errorf("%v of the time was used, want 80/150", got)
	}
	if got := after.Since(after); got != 0 {
		t.Errorf("%v was used in no time", got)
	}
}

func TestCPURefusesOtherTexts(t *testing.T) {
	for _, text := range []string{"", "cpu 1 2 3", "cpu0 1 2 3 4 5 6 7 8", "cpu 1 2 3 x 5 6 7 8"} {
		if _, err := parseCPU(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
	if c, err := ReadCPU(); err != nil || c.all <= 0 {
		t.Errorf("this machine: %+v, %v", c, err)
	}
}

// TestUse works for a while, without a gateway.
func TestUse(t *testing.T) {
	used, err := Use(nil, func() {
		for before := OwnCPU(); OwnCPU() < before+100*time.Millisecond; {
		}
	})
	if err != nil || used.Own <= 0 || used.Machine <= 0 || used.Machine > 1 || used.Gateways != 0 {
		t.Errorf("%+v, %v", used, err)
	}
}

func TestOwnCPU(t *testing.T) {
	before := OwnCPU()
	for begun := time.Now(); OwnCPU() <= before; {
		if time.Since(begun) > harness.Patience {
			t.Fatal("a busy process uses no CPU time")
		}
	}
}
