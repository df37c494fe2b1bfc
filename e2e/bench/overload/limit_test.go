package overload

import (
	"net/http"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/bench/compare"
)

// TestLimit plays traffic at twice and ten times the capacity in simulated time. The servers work there as fast as the
// capacity says; no critical call is lost, and with lengths more is answered than without.
func TestLimit(t *testing.T) {
	const warm, span = 2 * time.Second, 10 * time.Second
	limit, err := capacity()
	if err != nil {
		t.Fatal(err)
	}
	for _, load := range []float64{0.8, 2, 10} {
		calls, err := callsOf(1, load, warm+span, false)
		if err != nil {
			t.Fatal(err)
		}
		with, without := foreseen(calls, true), foreseen(calls, false)
		a, b := resultOf(with, warm, span), resultOf(without, warm, span)
		t.Logf("%v ×: with lengths %.1f/s %v, without lengths %.1f/s %v", load, a.goodput, a.good, b.goodput, b.good)
		var worked time.Duration // of the servers with full batches
		for i, o := range without {
			if o.attempts[0].Status == http.StatusOK && o.end >= warm && o.end < warm+span {
				worked += compare.Work(fleet()[0], calls[i].Prompt, calls[i].MaxTokens)
			}
		}
		busy := worked.Seconds() / (servers * span.Seconds())
		switch {
		case a.lost+b.lost > 0:
			t.Errorf("%v ×: %d and %d critical calls are lost", load, a.lost, b.lost)
		case load < 1 && a.good["batch"]+b.good["batch"] < 2:
			t.Errorf("%v ×: not all is in time: %v, %v", load, a.good, b.good)
		case load > 1 && (a.goodput < b.goodput || b.goodput < 0.9*limit || busy < 0.9 || busy > 1.05):
			t.Errorf("%v ×: %.1f/s, without lengths %.1f/s, capacity %.1f/s, servers busy %.2f", load, a.goodput,
				b.goodput, limit, busy)
		}
	}
}
