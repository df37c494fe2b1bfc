package regions

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/harness"
)

// Whichever worker a probe meets, it is answered by what Redis counts: a region that has room is always available, and
// one that has none never gets more.
func TestTwoRegionsWithRedis(t *testing.T) {
	for _, version := range []string{harness.DefaultVersion, harness.OldestVersion} {
		t.Run(version, func(t *testing.T) {
			us, eu := startWith(t, harness.Options{Version: version}, true)
			harness.Await(t, func() error { // a busy machine may not hear of Redis or of a probe for seconds
				late := 0 // a worker that counts alone would be half of the time
				for range 40 {
					if n := us.gateway.SumT(t, "warmgate_region_available"); n != 1 {
						late++
					}
					time.Sleep(50 * time.Millisecond)
				}
				if late > 4 {
					return fmt.Errorf("the other region has room, and is available %d times of 40", 40-late)
				}
				return nil
			})
			answered := us.hold(t)
			a := harness.Send(t, nil, http.MethodGet, us.gateway.URL()+path, "")
			if a.Status != http.StatusOK || a.Header.Get("x-server") != "eu" {
				t.Errorf("%d, %v", a.Status, a.Header)
			}
			there := eu.hold(t)
			harness.Await(t, func() error {
				if n := us.gateway.SumT(t, "warmgate_region_available"); n != 0 {
					return fmt.Errorf("the other region is full, and is available: %v", n)
				}
				return nil
			})
			for range 20 {
				if n := us.gateway.SumT(t, "warmgate_region_available"); n != 0 {
					t.Fatalf("the other region is full, and is available: %v", n)
				}
				time.Sleep(50 * time.Millisecond)
			}
			us.release <- struct{}{}
			eu.release <- struct{}{}
			<-answered
			<-there
			us.gateway.DrainedT(t)
			eu.gateway.DrainedT(t)
		})
	}
}
