package regions

import (
	"errors"
	"net/http"
	"testing"

	"github.com/warmgate/warmgate/e2e/faultproxy"
	"github.com/warmgate/warmgate/e2e/harness"
)

// TestSilentRegion has nothing come through to the other region any more while it computes what was forwarded there,
// and never again: no connection breaks, and none is refused. A gateway that hangs does not even read; a network that
// swallows all does not even acknowledge what is sent, nor that somebody connects. All of it is served at home, long
// before the route's timeout.
func TestSilentRegion(t *testing.T) {
	for _, c := range []struct {
		name    string
		higress bool
		mode    faultproxy.Mode
	}{
		{"Envoy, swallowed", false, faultproxy.Vanish()},
		{"Higress, hung", true, faultproxy.Stall()},
	} {
		t.Run(c.name, func(t *testing.T) {
			us, eu := newShipped(t, harness.DefaultVersion, "us", 1), newShipped(t, harness.DefaultVersion, "eu", 1)
			us.peer, eu.peer, us.higress, eu.higress = eu, us, c.higress, c.higress
			way, err := faultproxy.Start(t.Context(), "127.0.0.1:"+eu.port)
			if err != nil {
				t.Fatal(err)
			}
			us.way = way.Addr()
			us.run()
			eu.run()
			us.sees(eu)
			home, away := us.openAll(us), us.openAll(eu)
			if err := way.Set(c.mode); errors.Is(err, errors.ErrUnsupported) {
				t.Skip(err)
			} else if err != nil {
				t.Fatal(err)
			}
			for i, c := range away {
				if a := us.answer(c); a.Status != http.StatusOK || a.Header.Get("x-server") != "us" {
					t.Errorf("request %d: %+v", i, a)
				}
			}
			us.awaits("warmgate_region_returned_total", held)
			for _, c := range home {
				us.release <- struct{}{}
				if a := us.answer(c); a.Status != http.StatusOK {
					t.Errorf("at home: %+v", a)
				}
			}
			us.DrainedT(t)
		})
	}
}
