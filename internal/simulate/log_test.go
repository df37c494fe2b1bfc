package simulate_test

import (
	"math"
	"testing"
	"time"

	"github.com/warmgate/warmgate/internal/enginesim"
	"github.com/warmgate/warmgate/internal/simulate"
	"github.com/warmgate/warmgate/internal/simulate/calibrate"
)

// A log of simulated servers shows their times, and how much their caches hold if that is too little.
func TestCalibrateByALog(t *testing.T) {
	slow := enginesim.Times{
		Speed: 1, PrefillOverheadMS: 10, PrefillTokenMS: 0.2, DecodeStepMS: 25, DecodeSeqMS: 0.2,
	}
	fast := enginesim.Times{
		Speed: 1, PrefillOverheadMS: 2, PrefillTokenMS: 0.02, DecodeStepMS: 4, DecodeSeqMS: 0.3,
	}
	for name, c := range map[string]struct {
		times         enginesim.Times
		blocks, cache int // the size of the cache that the log shows
		think         time.Duration
	}{
		"usual": {enginesim.DefaultTimes(), 2000, 32000, 8 * time.Second},
		"slow":  {slow, 3000, 48000, 20 * time.Second},
		"fast":  {fast, 8192, 0, 3 * time.Second},
	} {
		e := simulate.DefaultEngine()
		e.Times, e.Config.NumBlocks = c.times, c.blocks
		l := simulate.Logging(&simulate.Sessions{
			Users: 60, Requests: 4000, Prompts: 5, System: 2000, Turns: 6, Question: 200, Answer: 150, Think: c.think,
		})
		policy, err := simulate.OfPolicy("global_least_request")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := simulate.Run(l, simulate.Alike(3, e), policy, 1, nil); err != nil {
			t.Fatal(err)
		}
		r, err := calibrate.FitLog(simulate.FromLog(l.Lines))
		if err != nil || r.Guessed || r.Answers != 4000 || r.Error > 0.15 || r.RestError > 0.01 {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
		for what, v := range map[string]struct{ got, want, within float64 }{
			"prompt":   {r.Times.PrefillOverheadMS, c.times.PrefillOverheadMS, 0.2},
			"token":    {r.Times.PrefillTokenMS, c.times.PrefillTokenMS, 0.03},
			"step":     {r.Times.DecodeStepMS, c.times.DecodeStepMS, 0.01},
			"sequence": {r.Times.DecodeSeqMS, c.times.DecodeSeqMS, 0.2},
			"cache":    {float64(r.CacheTokens), float64(c.cache), 0.1},
		} {
			if math.Abs(v.got-v.want) > v.within*v.want {
				t.Errorf("%s: %s is %.4g, want %.4g", name, what, v.got, v.want)
			}
		}
	}
	if r, err := calibrate.FitLog(&simulate.AccessLog{}); err == nil {
		t.Errorf("of no requests: %+v", r)
	}
}
