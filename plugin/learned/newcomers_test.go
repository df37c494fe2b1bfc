package learned

import (
	"strconv"
	"testing"
	"time"
)

// Names that are used once do not make a VM forget those in use, and do not fill its memory. What nobody uses any more
// makes room for others.
func TestTenantsInUseAreKept(t *testing.T) {
	known, now := NewTenants(), time.Hour
	answer := func(kind string, n, times int) {
		for range times {
			for i := range n {
				known.Answered(now, TenantName(kind+strconv.Itoa(i)))
				now += time.Millisecond
			}
		}
	}
	kept := func(kind string, n int) (kept int) {
		for i := range n {
			if known.TurnOf(TenantName(kind+strconv.Itoa(i))) != Newcomers {
				kept++
			}
		}
		return kept
	}
	const most = maxTenants * 3 / 4
	answer("in use", most, 3)
	answer("once", 10*maxTenants, 1)
	if n := kept("in use", most); len(known.known) > maxTenants || n < most {
		t.Errorf("%d names are known, %d of the %d in use", len(known.known), n, most)
	}
	now += 10 * halfLife
	answer("later", most, 10)
	if n := kept("later", most); len(known.known) > maxTenants || n < most {
		t.Errorf("%d names are known, %d of the %d that are in use later", len(known.known), n, most)
	}
}
