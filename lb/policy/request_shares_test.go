package policy_test

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb/engines"
	"github.com/warmgate/warmgate/lb/policy"
)

// TestRateLimit has one endpoint that always costs least: it gets its share of the requests of all workers, and the
// next best endpoint the rest.
func TestRateLimit(t *testing.T) {
	const workers, limit = 3, 0.4
	var ws []*engineCluster
	for range workers {
		w := newEngineCluster(t, 4, func(cfg *engines.Config) { cfg.RateLimit = limit })
		for range 2 {
			w.now += time.Second
			for i := range 4 {
				w.report(i, 0, running(100*i), waiting(0))
			}
			w.update()
		}
		ws = append(ws, w)
	}
	var shared []byte
	picks := make([]int, 4)
	n := 0
	for tick := range 60 {
		for range 5 {
			w := ws[n%workers]
			n++
			i := w.choice("", 0, 0, 0, 0)
			picks[i]++
			w.shares.Count(w.now, w.addr(i))
		}
		for _, w := range ws {
			shared = w.shares.Export(w.now, shared)
			w.shares.ConfirmExport(shared)
		}
		for _, w := range ws {
			w.shares.Import(shared)
			if tick%10 == 9 {
				w.now += time.Second
				for i := range 4 {
					w.report(i, 0, running(100*i), waiting(0))
				}
				w.update()
			}
		}
	}
	share := float64(picks[0]) / float64(n)
	if share > limit+0.02 || share < limit-0.05 {
		t.Errorf("the cheapest has %.3f of %d requests, want %v: %v", share, n, limit, picks)
	}
	if share := float64(picks[1]) / float64(n); share > limit+0.02 || share < limit-0.05 {
		t.Errorf("the next best has %.3f, want %v, too: %v", share, limit, picks)
	}
	if picks[3] > 0 {
		t.Errorf("the worst has %d although the others have room", picks[3])
	}
}

// A limit that no endpoint can meet has no effect: no request is lost for it.
func TestRateLimitTooLow(t *testing.T) {
	w := newEngineCluster(t, 2, func(cfg *engines.Config) { cfg.RateLimit = 0.1 })
	w.report(0, 0, running(0), waiting(0))
	w.report(1, 0, running(0), waiting(0))
	w.update()
	for range 100 {
		i := w.choice("", 0, 0)
		if i < 0 {
			t.Fatal("a request falls back to the gateway")
		}
		w.shares.Count(w.now, w.addr(i))
	}
}

// Old requests do not count, whichever VM counted them.
func TestSharesForget(t *testing.T) {
	s := policy.NewRequestShares()
	w := newEngineCluster(t, 2, func(cfg *engines.Config) { cfg.RateLimit = 0.5 })
	w.shares = s
	w.build("endpoint_metrics")
	w.report(0, 0, running(0), waiting(0))
	w.report(1, 0, running(50), waiting(0))
	w.update()
	w.choice("", 0, 0)
	for range 50 {
		s.Count(w.now, w.addr(0))
	}
	if got := w.choice("", 0, 0); got != 1 {
		t.Errorf("chose %d, which got all requests", got)
	}
	all := s.Export(w.now, nil)
	s.ConfirmExport(all)
	if got := w.choice("", 0, 0); got != 1 {
		t.Errorf("chose %d after all have imported it", got)
	}
	w.now += 11 * time.Second
	w.report(0, 0, running(0), waiting(0))
	w.report(1, 0, running(50), waiting(0))
	w.update()
	if got := w.choice("", 0, 0); got != 0 {
		t.Errorf("chose %d because of old requests", got)
	}
	if left := s.Export(w.now, all); len(left) > 0 {
		t.Errorf("%d bytes of it are still exported", len(left))
	}
}

// Whatever shared memory contains, counts are wrong for no longer than the window.
func FuzzSharesImport(f *testing.F) {
	f.Add([]byte{1, 2, 3}, int64(time.Hour))
	f.Add(make([]byte, 64), int64(0))
	f.Fuzz(func(t *testing.T, raw []byte, now int64) {
		s := policy.NewRequestShares()
		s.Import(raw)
		if now < 0 {
			now = -now
		}
		s.Count(time.Duration(now), "a")
		if all := s.Export(time.Duration(now), raw); len(all)%16 != 0 {
			t.Fatalf("%d bytes", len(all))
		}
	})
}

// What VMs exchange is byte for byte as documented: those with another version of the plugin read it.
func TestFormatsOfShares(t *testing.T) {
	s := policy.NewRequestShares()
	const share = "\x04\x03\x02\x01" + "\x18\x17\x16\x15\x14\x13\x12\x11" + "\x24\x23\x22\x21"
	s.Import([]byte(share))
	if got := s.Export(0x01020304*time.Second, []byte(share)); string(got) != share {
		t.Errorf("counts for rate_limit\n got %q\nwant %q", got, share)
	}
}
