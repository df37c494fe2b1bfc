package policy

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"pgregory.net/rapid"
)

// A cluster that serves so many at once, and lets others wait, has room for as many as it was given; beyond what it
// serves at once, for that and what is tried.
func TestRoomIsWhatIsServedAtOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		slots := float64(rapid.IntRange(1, 200).Draw(rt, "slots"))
		service := float64(rapid.IntRange(10, 30_000).Draw(rt, "ms"))
		vary := rapid.Float64Range(0, 0.3).Draw(rt, "vary")
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		var r room
		now, highest := time.Duration(0), 0.0
		for range 400 {
			inflight := math.Ceil(2 * slots * random.Float64())
			highest = max(highest, inflight)
			took := service * max(1, inflight/slots) * (1 + vary*(random.Float64()-0.5))
			now += 20 * time.Millisecond
			r.add(now, int64(inflight), took/4, took)
		}
		if got := r.requests() - spareRoom; got < min(slots, highest)/3-1 || got > 1.5*slots+1 {
			rt.Fatalf("room for %v, it serves %v at once", got, slots)
		}
	})
}

// What never had more than a few requests is tried with a few more; and none is known of one without answers.
func TestRoomGrowsByUse(t *testing.T) {
	var r room
	if got := r.requests(); got != 1+spareRoom {
		t.Errorf("room for %v without an answer", got)
	}
	now := time.Duration(0)
	for _, inflight := range []int64{3, 5, 7} {
		for range 2 * batchAnswers {
			now += time.Millisecond
			r.add(now, inflight, 20, 80)
		}
		if got := r.requests(); got != float64(inflight+spareRoom) {
			t.Errorf("room for %v after answers with %d in flight", got, inflight)
		}
	}
}

// A cluster that has become slow is another one: what it served at once before does not count any more.
func TestRoomOfAnotherCluster(t *testing.T) {
	var r room
	now := time.Duration(0)
	answers := func(n int, inflight int64, took float64) {
		for range n {
			now += 10 * time.Millisecond
			r.add(now, inflight, took/4, took)
		}
	}
	answers(10*batchAnswers, 16, 100)
	answers(batchAnswers, 12, 150)
	if _, size := r.learned(); size != 16 {
		t.Errorf("a batch that took a little longer: room for %v", size)
	}
	answers(batchAnswers, 4, 900)
	if quickest, size := r.learned(); quickest != 900 || size != 4 {
		t.Errorf("%v ms and room for %v", quickest, size)
	}
}

// Few answers are a batch after a second, many as soon as they are enough.
func TestBatches(t *testing.T) {
	var r room
	for _, c := range []struct {
		ms   time.Duration
		done bool
	}{{5000, false}, {5500, false}, {6000, true}, {15000, false}, {15999, false}, {16000, true}} {
		if _, done := r.add(c.ms*time.Millisecond, 1, 1, 2); done != c.done {
			t.Errorf("the answer after %d ms completes a batch: %t", c.ms, done)
		}
	}
	r = room{}
	for i := range 2 * batchAnswers {
		m, done := r.add(time.Second, int64(i%batchAnswers), 10, float64(20+i%batchAnswers))
		if want := i%batchAnswers == batchAnswers-1; done != want {
			t.Errorf("answer %d completes a batch: %t", i, done)
		} else if done && (m.inflight != 7.5 || m.first != 10 || m.whole != 27.5) {
			t.Errorf("means %+v", m)
		}
	}
}

// Each cluster is drawn as often as is its part of what all serve; all as often while nothing is known.
func TestDrawsFollowSpeeds(t *testing.T) {
	b := newClusterBench(t, AdaptiveScore, 4, nil)
	drawn := func() (n [4]int) {
		for range 6000 {
			for i := range 4 { // none is neglected
				b.shares.Count(b.now, clusterName(i))
			}
			p, _ := b.plan()
			for _, c := range p.Candidates {
				n[c.Addr[0]-'a']++
			}
		}
		return n
	}
	for i, n := range drawn() {
		if n < 2800 || n > 3200 {
			t.Errorf("cluster %d is drawn %d times of 6000", i, n)
		}
	}
	for i, seconds := range []time.Duration{1, 2, 4, 9} {
		b.loads[i].Requests++
		b.end(i, lb.Success, time.Second, seconds*time.Second)
	}
	n := drawn()
	for i := 1; i < 4; i++ {
		if n[i] >= n[i-1] || n[i] == 0 {
			t.Errorf("drawn %v times of 6000, each is slower than the one before", n)
		}
	}
}

// Clusters with weights that say how large they are have as much in flight, for their size, from the beginning.
func TestScoresByWeights(t *testing.T) {
	b := newClusterBench(t, AdaptiveScore, 2, nil)
	b.config.Cluster.Weights = map[string]float64{"a": 4, "b": 1}
	b.setCap(0)
	for range 50 {
		b.place()
	}
	if a := b.loads[0].Requests; a < 38 || a > 42 {
		t.Errorf("of 50 requests %d at the cluster with four fifths of the weights", a)
	}
}
