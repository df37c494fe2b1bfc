package simulate

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/internal/enginesim"
	"github.com/warmgate/warmgate/plugin/config"
)

// watched is a load that tells of the ends of its requests.
type watched struct {
	Load
	ended func(now time.Duration, r *Request, served bool)
}

func (w *watched) Ended(now time.Duration, number int, r *Request, served bool) {
	w.ended(now, r, served)
	w.Load.Ended(now, number, r, served)
}

// twoRegions are apart, with most users in the first one.
func twoRegions(rtt time.Duration) (*Layout, *Sessions) {
	fleet := Alike(2, Engine{Config: enginesim.Config{NumBlocks: 4096}})
	s := small()
	s.Think, s.Places = 200*time.Millisecond, []Place{{Share: 4}, {Share: 1}}
	return &Layout{
		Pools: []Pool{{Name: "eu", Engines: fleet}, {Name: "us", Engines: fleet}},
		RTT:   [][]time.Duration{{0, rtt}, {rtt, 0}},
	}, s
}

func parsed(t *testing.T, raw string) Contender {
	t.Helper()
	c, err := ParseContender("it", []byte(raw), config.Higress)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestRegionsHelp holds that a crowded region sends requests to one with room, that these pay for the way, and that
// nothing is lost or counted twice.
func TestRegionsHelp(t *testing.T) {
	const rtt = 60 * time.Millisecond
	l, s := twoRegions(rtt)
	c := parsed(t, `{"lb_policy":"prefix_cache","lb_config":{"max_inflight":8,"queue":{"max_wait":"30s"}}}`)
	forwarding, ok := l.Forwarding(c)
	if _, again := l.Forwarding(forwarding); !ok || again {
		t.Fatalf("forwarding: %v, and once more: %v", ok, again)
	}
	away := 0
	load := &watched{s.New(1), func(now time.Duration, r *Request, served bool) {
		if r.trip.away {
			away++
			if r.Region != 0 || r.front != 1 || now < r.sent+rtt || r.first < r.sent+rtt/2 || !served {
				t.Errorf("of region %d at %d: sent %v, first token %v, last %v at its user", r.Region, r.front, r.sent,
					r.first, now)
			}
		}
	}}
	r, err := newRun(load, l, forwarding, 1)
	if err != nil {
		t.Fatal(err)
	}
	r.load.Begin(r.sendAt)
	for r.busy() && r.err == nil {
		r.happens(r.events.next())
	}
	if r.err != nil {
		t.Fatal(r.err)
	}
	helped := r.result("helped")
	alone, err := l.Run(s.New(1), c, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	eu, us := helped.Regions[0], helped.Regions[1]
	if helped.Served != s.Requests || eu.Served+us.Served != s.Requests || eu.Forwarded != away || us.Forwarded != 0 ||
		helped.Forwarded != away || away < s.Requests/10 {
		t.Errorf("%d of %d forwarded, eu: %+v, us: %+v", away, s.Requests, figures(eu.Result), figures(us.Result))
	}
	if alone.Forwarded != 0 || alone.Regions[0].TTFT.P90 < 2*eu.TTFT.P90 || alone.Regions[0].Waited < eu.Waited {
		t.Errorf("each alone: %+v\nhelped: %+v", figures(alone), figures(helped))
	}
	sum := 0
	for _, p := range helped.Points {
		sum += p.Forwarded
	}
	if sum != away || eu.Endpoints != 2 || helped.Endpoints != 4 {
		t.Errorf("%d forwarded by time, %d endpoints of %d", sum, eu.Endpoints, helped.Endpoints)
	}
	for _, p := range r.fronts {
		p.product.store.Flush(r.now)
		loads, err := p.product.store.Loads(clusterName, []string{p.product.view.Endpoints[0].Addr}, nil)
		if err != nil || loads[0].Requests != 0 || p.product.waiting != 0 {
			t.Errorf("%v and %d waiting at the end, %v", loads, p.product.waiting, err)
		}
	}
}

// TestRegionsOfConfiguration holds that a configuration with regions is that of each, with its other keys.
func TestRegionsOfConfiguration(t *testing.T) {
	l, s := twoRegions(60 * time.Millisecond)
	s.System, s.Question, s.Think = 100, 500, time.Second
	raw := func(more string) string {
		return `{"lb_policy":"prefix_cache","lb_config":{"max_inflight":8,"queue":{"max_wait":"30s"},"regions":{
			"name":"us","cluster":"llm","peers":[{"name":"eu","cluster":"peer","rtt":"60ms"}],
			"secret":"0123456789abcdef"` + more + `}}}`
	}
	forwarded := func(more string) int {
		r, err := l.Run(s.New(1), parsed(t, raw(more)), 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		return r.Forwarded
	}
	usual, back := forwarded(""), forwarded(`,"cached_first":true`)
	if usual == 0 || back == usual || forwarded(`,"allowed":[]`) != 0 {
		t.Errorf("%d forwarded, %d with cached_first, %d where none is allowed", usual, back, forwarded(`,"allowed":[]`))
	}
	for _, other := range []*Layout{Alone(l.Pools[0].Engines), {
		Pools: []Pool{l.Pools[0], {Name: "ap", Engines: l.Pools[1].Engines}},
		RTT:   l.RTT,
	}} {
		if _, err := other.Run(s.New(1), parsed(t, raw("")), 1, nil); err == nil ||
			!strings.Contains(err.Error(), `["us" "eu"]`) {
			t.Errorf("%+v: %v", other.Pools, err)
		}
	}
	if _, ok := l.Forwarding(parsed(t, `{"lb_policy":"prefix_cache"}`)); ok {
		t.Error("a configuration by which no endpoint is ever full forwards")
	}
}

// TestFarRegions holds that a region that answers later than probes are heard gets nothing.
func TestFarRegions(t *testing.T) {
	l, s := twoRegions(1200 * time.Millisecond)
	c, _ := l.Forwarding(parsed(t, `{"lb_policy":"prefix_cache","lb_config":{"max_inflight":8,"queue":{"max_wait":"30s"}}}`))
	r, err := l.Run(s.New(1), c, 1, nil)
	if err != nil || r.Forwarded != 0 || r.Served != s.Requests {
		t.Errorf("%+v, %v", figures(r), err)
	}
}

// TestDay holds that as many users are awake as the hour says, and that nobody is woken in vain.
func TestDay(t *testing.T) {
	d := Day{Length: 24 * time.Minute, Night: 0.25}
	const users = 1000
	for _, zone := range []float64{0, -8, 5.5, 24} {
		for hour := 0.0; hour < 24; hour += 1.3 {
			now, awake := time.Duration(hour*float64(time.Minute)), 0
			for i := range users {
				rank := (float64(i) + 0.5) / users
				wakes := d.wakes(now, zone, rank)
				if wakes == now {
					awake++
					continue
				}
				later := wakes + time.Microsecond
				if again := d.wakes(later, zone, rank); wakes < now || wakes > now+d.Length || again != later {
					t.Fatalf("at %v wakes at %v, and again at %v", now, wakes, again)
				}
			}
			want := 0.25 + 0.75*(1+math.Cos(2*math.Pi*(hour+zone-15)/24))/2
			if share := float64(awake) / users; math.Abs(share-want) > 0.002 {
				t.Errorf("zone %v, hour %v: %v are awake, want %v", zone, hour, share, want)
			}
		}
	}
}

// TestDayOfRegions holds that the load of each region follows its own day, and is about as much as expected.
func TestDayOfRegions(t *testing.T) {
	s := small()
	s.Users, s.Day = 200, Day{Length: 4 * time.Minute, Night: 0.1}
	s.Places = []Place{{Share: 1}, {Share: 3, Zone: 12}}
	early, sum := [2]int{}, [2]int{}
	load := &watched{s.New(2), func(_ time.Duration, r *Request, _ bool) {
		sum[r.Region]++
		if r.sent < s.Day.Length/8 || r.sent > 7*s.Day.Length/8 { // from 21:00 to 3:00 in the first region
			early[r.Region]++
		}
	}}
	if _, err := Run(load, Alike(6, Engine{}), Contender{Native: "round_robin"}, 2, nil); err != nil {
		t.Fatal(err)
	}
	if all := sum[0] + sum[1]; math.Abs(float64(all)/float64(s.Expected())-1) > 0.25 || sum[1] < 2*sum[0] {
		t.Errorf("%v requests, want about %d", sum, s.Expected())
	}
	if 6*early[0] > sum[0] || 3*early[1] < sum[1] {
		t.Errorf("%v requests of %v in a quarter of the day", early, sum)
	}
}

// TestDivide holds that regions have their shares of a load that knows of none.
func TestDivide(t *testing.T) {
	s, count := small(), [2]int{}
	s.Turns = 1
	load := &watched{Divide(s.New(1), []Place{{Share: 1}, {Share: 2}}), func(_ time.Duration, r *Request, _ bool) {
		count[r.Region]++
	}}
	if _, err := Run(load, Alike(4, Engine{}), Contender{Native: "random"}, 1, nil); err != nil {
		t.Fatal(err)
	}
	if count[0]+count[1] != s.Requests || count[0] < 160 || count[0] > 240 {
		t.Errorf("%v requests of %d, want a third and two", count, s.Requests)
	}
}
