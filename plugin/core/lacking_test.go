package core

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/plugin/stats"
)

// One of four endpoints has an adapter: the gauge names it and says that three lack it, for as long as it is asked for
// and they do; what all have is not shown.
func TestLackingEndpointsAreShown(t *testing.T) {
	for name, config := range map[string]string{"answers": requestsConfig, "lists": listsConfig} {
		t.Run(name, func(t *testing.T) {
			d := startFake(t, 2, 4, config)
			d.models = onOne()
			of := func(model string) string {
				return stats.LackModel + ";cluster=" + fakeCluster + ";model=" + model
			}
			ask := func(times int) {
				for i := range times {
					d.served(i%2, "sql")
					d.served(i%2, "base")
					d.advance(100 * time.Millisecond)
				}
			}
			want := func(what string, n uint64) {
				t.Helper()
				if got := d.metrics.values[of("sql")]; got != n {
					t.Errorf("%s: %d endpoints lack the adapter, want %d", what, got, n)
				}
			}
			ask(200)
			want("it is asked for", 3)
			if n, shown := d.metrics.values[of("base")]; shown {
				t.Errorf("%d endpoints lack the base model", n)
			}
			d.advance(11 * time.Minute)
			want("nobody asks any more", 0)
			ask(200)
			want("it is asked for again", 3)
			for i := range 4 {
				d.models[i] = []string{"base", "sql"}
			}
			for range 4 { // beyond the longest patience
				d.advance(time.Minute)
				ask(100)
			}
			want("all have it", 0)
			d.drained()
		})
	}
}
