package core

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/process"
	"github.com/warmgate/warmgate/plugin/stats"
)

// picks returns how many requests least_request would have sent to the same endpoint, and elsewhere.
func (d *fakeDriver) picks() (same, elsewhere uint64) {
	name := stats.NativePicks + ";cluster=" + fakeCluster + ";result="
	return d.metrics.values[name+"same"], d.metrics.values[name+"elsewhere"]
}

func (d *fakeDriver) wantPicks(what string, want uint64) {
	d.t.Helper()
	if same, elsewhere := d.picks(); same+elsewhere != want {
		d.t.Errorf("%s: %d and %d requests, want %d", what, same, elsewhere, want)
	}
}

// waits returns milliseconds in which something was free while requests waited.
func (d *fakeDriver) waits(stat, policy string) (n uint64, shown bool) {
	name := stat + ";cluster=" + fakeCluster + ";policy=" + policy
	return d.metrics.values[name], d.metrics.kinds[name] != ""
}

// pairs has two requests at a time, of different workers, take so long each.
func (d *fakeDriver) pairs(n int, long time.Duration) {
	for range n {
		first, second := d.client(0, streamtest.Request{}), d.client(1, streamtest.Request{})
		d.advance(long)
		first.Finish()
		second.Finish()
	}
}

// TestGains has requests of two workers take turns at two endpoints: none waits, but by chance of least_request some
// would have, beside an idle endpoint.
func TestGains(t *testing.T) {
	d := startFake(t, 2, 2, queueConfig(""))
	d.advance(time.Second)
	d.pairs(20, time.Second)
	d.advance(20 * time.Second)
	d.wantPicks("two workers", 40)
	if same, elsewhere := d.picks(); same == 0 || elsewhere == 0 {
		t.Errorf("%d to the same endpoint, %d elsewhere", same, elsewhere)
	}
	for _, stat := range []string{stats.IdleWait, stats.SlotWait} {
		if n, shown := d.waits(stat, "global_least_request"); !shown || n != 0 {
			t.Errorf("%s: %d ms, shown: %t, want 0", stat, n, shown)
		}
		if n, _ := d.waits(stat, "least_request"); n < 1000 || n > 15000 {
			t.Errorf("%s of least_request: %d ms, want about a quarter of 20 s", stat, n)
		}
	}
	d.drained()
}

// TestGainsAreNotTold has nothing told of calls that compute nothing, of requests that the gateway places, and where it
// is not known how many requests endpoints run.
func TestGainsAreNotTold(t *testing.T) {
	d := startFake(t, 2, 2, queueConfig(""))
	d.advance(time.Second)
	d.client(0, streamtest.Request{Method: "GET", Path: "/v1/models"}).Finish()
	d.advance(20 * time.Second)
	d.wantPicks("a list of models", 0)

	d = startFake(t, 2, 2, strings.Replace(queueConfig(""), `"max_inflight":1,`, `"max_inflight":1,"shadow":true,`, 1))
	d.advance(time.Second)
	d.pairs(3, time.Second)
	d.advance(20 * time.Second)
	d.wantPicks("in shadow mode", 0)

	off := `"max_inflight":1,"telemetry":{"enabled":false},`
	d = startFake(t, 2, 2, strings.Replace(queueConfig(""), `"max_inflight":1,`, off, 1))
	d.advance(time.Second)
	d.pairs(3, time.Second)
	d.advance(20 * time.Second)
	d.wantPicks("without telemetry", 0)

	d = startFake(t, 2, 2, requestsConfig)
	d.advance(time.Second)
	d.pairs(3, time.Second)
	d.advance(20 * time.Second)
	d.wantPicks("without caps", 6)
	if n, shown := d.waits(stats.SlotWait, "least_request"); shown {
		t.Errorf("%d ms without caps", n)
	}
}

// TestWaitsInTheGateway has a request wait in the queue beside an endpoint that was free all the time, as far as
// least_request is concerned: the plugin has ejected none, but is at its cap.
func TestWaitsInTheGateway(t *testing.T) {
	d, busy := startQueue(t, 2, 1, queueConfig(""))
	c := d.client(1, streamtest.Request{})
	d.wantWaiting(c)
	d.advance(3 * time.Second)
	busy[0].Finish()
	d.advance(time.Second)
	c.Finish()
	left := d.client(0, streamtest.Request{})
	left.Finish()
	d.advance(20 * time.Second)
	d.wantPicks("one after the other", 3)
	for _, policy := range []string{"global_least_request", "least_request"} {
		if n, shown := d.waits(stats.SlotWait, policy); !shown || n != 0 { // there was nothing else
			t.Errorf("%s: %d ms, shown: %t", policy, n, shown)
		}
	}
	d.drained()
}

// cachedStreams has streams of two workers show how fast prompts are computed.
func (d *fakeDriver) cachedStreams(n int, uncached func(i int) int, cached int) {
	for i := range n {
		c := d.client(i%2, streamtest.Request{Frames: []string{chatOf(`"model-a"`, i, 400)}})
		c.Head(200, eventStream)
		d.advance(20*time.Millisecond + time.Duration(uncached(i))*time.Second/prefillSpeed)
		c.Data(wordEvent)
		c.Data(fmt.Sprintf("data: {\"choices\":[],\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":9,"+
			"\"prompt_tokens_details\":{\"cached_tokens\":%d}}}\n\n", uncached(i)+cached, cached))
		c.Data(doneEvent)
		c.Finish()
	}
}

const prefillSpeed = 10_000

// TestSavedPrefill has cached tokens told as the time that they would have taken at the speed that streams show.
func TestSavedPrefill(t *testing.T) {
	d := startFake(t, 2, 2, fmt.Sprintf(prefixConfig, 0))
	d.advance(time.Second)
	const streams, cached = 150, 300
	d.cachedStreams(streams, func(i int) int { return 50 + (i*37)%1000 }, cached)
	d.advance(20 * time.Second)
	of := ";cluster=" + fakeCluster + ";model=model-a"
	got, saved := float64(d.metrics.values[stats.PrefillSpeed+of]), float64(d.metrics.values[stats.SavedPrefill+of])
	if math.Abs(got/prefillSpeed-1) > 0.02 {
		t.Errorf("%g tokens a second, want %d", got, prefillSpeed)
	}
	if want := float64(streams*cached) * 1000 / prefillSpeed; math.Abs(saved/want-1) > 0.1 {
		t.Errorf("%g ms saved, want %g", saved, want)
	}
	// more streams than are looked at, of which nearly nothing is computed
	const warm, more = 700, 5000
	d.cachedStreams(warm, func(i int) int { return 1 + i%16 }, more)
	d.advance(20 * time.Second)
	saved = float64(d.metrics.values[stats.SavedPrefill+of]) - saved
	if want := float64(warm*more) * 1000 / prefillSpeed; math.Abs(saved/want-1) > 0.02 {
		t.Errorf("%g ms saved by prompts that were nearly all cached, want %g", saved, want)
	}
	d.advance(15 * time.Minute)
	if got := d.metrics.values[stats.PrefillSpeed+of]; got != 0 {
		t.Errorf("%d tokens a second after a quarter of an hour without requests", got)
	}
}

// TestGainsSurvive has shared memory fail for a while, VMs be lost, and nobody read what is told.
func TestGainsSurvive(t *testing.T) {
	d := startFake(t, 2, 2, queueConfig(""))
	d.advance(time.Second)
	d.pairs(2, time.Second)
	d.kv.OnSet = func(key string, _ []byte, _ uint32) error {
		if key == process.KeyFlights || key == process.KeyGainer {
			return lb.ErrMismatch
		}
		return nil
	}
	d.pairs(2, 200*time.Millisecond)
	d.advance(2 * time.Second)
	d.kv.OnSet = nil
	d.advance(20 * time.Second)
	if same, elsewhere := d.picks(); same+elsewhere < 4 || same+elsewhere > 8 {
		t.Errorf("%d and %d of 8 requests after shared memory has failed", same, elsewhere)
	}

	for _, w := range d.threads() { // one of them has read for all
		w.lose()
	}
	d.advance(20 * time.Second)
	same, elsewhere := d.picks()
	before := same + elsewhere
	d.pairs(2, time.Second)
	d.advance(20 * time.Second)
	d.wantPicks("after the loss of all VMs", before+4)

	cell := d.kv.Cells[process.KeyFlights]
	cell.Val = "what is no batch"
	d.kv.Cells[process.KeyFlights] = cell
	d.pairs(2, time.Second)
	d.advance(20 * time.Second)
	d.pairs(2, time.Second)
	d.advance(time.Minute + 30*time.Second)
	if same, elsewhere := d.picks(); same+elsewhere < before+8 {
		t.Errorf("%d and %d requests after a damaged log, want %d at least", same, elsewhere, before+8)
	}
	d.drained()
}
