package modes

import "time"

// scene is clusters with what happens to them, at one load after the other.
type scene struct {
	name   string
	sites  []site
	loads  []float64 // arrivals as parts of what all clusters can serve
	varied bool      // how long answers take is distributed exponentially; otherwise all take as long
	events []event
	pace   float64 // factor by which its times are multiplied; 0: 1
}

// site is a cluster.
type site struct {
	slots   int // requests at once; others wait there, in order
	service time.Duration
	away    time.Duration // is added to each answer, without a slot
	batch   float64       // requests at once with which each takes twice as long as alone; 0: never longer
}

// event changes a cluster.
type event struct {
	at    time.Duration
	site  int
	times float64 // how many times as long as usual answers take from then on; 0: all fail at once
}

// Of a run, what comes before warm is not measured, and nothing comes from end on.
const (
	warm = 7 * time.Second
	end  = 61 * time.Second
)

const ms = time.Millisecond

var (
	unequal = []site{{slots: 16, service: 103 * ms}, {slots: 8, service: 97 * ms}, {slots: 8, service: 211 * ms}}
	equal   = []site{{slots: 9, service: 107 * ms}, {slots: 9, service: 107 * ms}, {slots: 9, service: 107 * ms}}
	distant = []site{
		{slots: 7, service: 131 * ms},
		{slots: 31, service: 127 * ms, away: 173 * ms},
		{slots: 13, service: 139 * ms, away: 61 * ms},
	}
	engines = []site{
		{slots: 24, service: 61 * ms, batch: 12},
		{slots: 16, service: 53 * ms, batch: 5},
		{slots: 10, service: 97 * ms, batch: 9},
	}
	models = []site{
		{slots: 4, service: 4100 * ms}, {slots: 9, service: 5300 * ms}, {slots: 6, service: 2900 * ms},
	}
)

var (
	slows      = []event{{11300 * ms, 1, 7.3}, {17900 * ms, 1, 1}}
	largeSlows = []event{{11300 * ms, 0, 4.7}, {21900 * ms, 0, 1}}
	quickens   = []event{{11300 * ms, 2, 0.2}, {41900 * ms, 2, 1}}
	fails      = []event{{23700 * ms, 1, 0}, {26100 * ms, 1, 1}}
	failsLong  = []event{{11900 * ms, 1, 0}, {36700 * ms, 1, 1}}
	both       = append(slows[:2:2], fails...)
)

var scenes = []scene{
	{name: "unequal", sites: unequal, loads: []float64{0.11, 0.23, 0.37, 0.57, 0.83}},
	{name: "unequal", sites: unequal, loads: []float64{0.11, 0.23, 0.37, 0.57, 0.83}, varied: true},
	{name: "equal", sites: equal, loads: []float64{0.31, 0.53, 0.79}},
	{name: "equal", sites: equal, loads: []float64{0.31, 0.53, 0.79}, varied: true},
	{name: "some far away", sites: distant, loads: []float64{0.23, 0.41, 0.67}, varied: true},
	{name: "more at once take longer", sites: engines, loads: []float64{0.19, 0.37}},
	{name: "more at once take longer", sites: engines, loads: []float64{0.19, 0.37}, varied: true},
	{name: "one slows down", sites: unequal, loads: []float64{0.23, 0.31, 0.41, 0.57}, events: slows},
	{name: "one slows down", sites: unequal, loads: []float64{0.23, 0.31, 0.41, 0.57}, varied: true, events: slows},
	{name: "the largest slows down", sites: unequal, loads: []float64{0.17, 0.31}, varied: true, events: largeSlows},
	{name: "one becomes faster", sites: unequal, loads: []float64{0.37, 0.57}, varied: true, events: quickens},
	{name: "one fails", sites: unequal, loads: []float64{0.37, 0.57, 0.67}, events: fails},
	{name: "one fails", sites: unequal, loads: []float64{0.37, 0.57, 0.67}, varied: true, events: fails},
	{name: "one fails for long", sites: unequal, loads: []float64{0.37, 0.57}, varied: true, events: failsLong},
	{name: "one slows down, and fails later", sites: unequal, loads: []float64{0.41, 0.57}, events: both},
	{name: "answers of seconds", sites: models, loads: []float64{0.37, 0.67}, varied: true, pace: 20},
}
