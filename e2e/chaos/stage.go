package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/warmgate/warmgate/e2e/audit"
)

type settings struct {
	only             []string // scenes to play; all if empty
	span             time.Duration
	inRedis          bool
	version          string // of Envoy
	redis            string // version of Redis
	servers, workers int
	herd, crowd      int
	leavers          int
	queueLeavers     int
	waiting          int
	forged           int
	streams          int
	rate             float64
	// oneSite plays all scenes without Redis on the module that can be crashed, which saves the start of a gateway.
	oneSite  bool
	seed     uint64
	progress io.Writer
}

// figures are what a run ends with.
type figures struct {
	Bench      string   `json:"bench"`
	Seed       uint64   `json:"seed"`
	Violations int      `json:"violations"`
	Requests   int      `json:"requests"`
	Failed     int      `json:"failed"`  // requests and streams that failed although their endpoint and gateway did not
	Excused    int      `json:"excused"` // those that their endpoint failed, or that ended with their VM, gateway or wire
	Scenes     []result `json:"scenes"`
	*judgement          // nil if there was no outage of Redis
}

// result is what one scene has shown.
type result struct {
	Scene        string             `json:"scene"`
	Requests     int                `json:"requests"`
	Failed       int                `json:"failed"`
	Excused      int                `json:"excused"`
	Left         int                `json:"left"`     // clients that left as planned
	AgreeMS      int64              `json:"agree_ms"` // until all parties counted the same, streams still open
	DrainMS      int64              `json:"drain_ms"` // until nothing was counted after the last end
	*redisResult                    // nil without Redis
	Figures      map[string]float64 `json:"figures,omitempty"`
}

// redisResult is what one scene with Redis has shown. Its times are those of requests that their server answers at
// once.
type redisResult struct {
	Lost         int            `json:"lost"` // with their gateway
	Fallbacks    map[string]int `json:"fallbacks"`
	BaseP99MS    float64        `json:"base_p99_ms"`    // before the fault
	FirstP99MS   float64        `json:"first_p99_ms"`   // in its first second
	LaterP99MS   float64        `json:"later_p99_ms"`   // from its second second on
	Outage       bool           `json:"outage"`         // no gateway could reserve in Redis
	AddedFirstMS float64        `json:"added_first_ms"` // by the fault, to the p99; noise may make it negative
	AddedLaterMS float64        `json:"added_later_ms"`
}

// kind is a kind of place that scenes are played at.
type kind int

const (
	shipped   kind = iota // a gateway with the module as shipped
	trapped               // a gateway with the module that can be crashed
	among                 // a gateway that chooses among three clusters
	regional              // three regions, each with a gateway
	single                // two gateways that count in one Redis server
	clustered             // two gateways that count in a Redis Cluster
)

// scene is one scenario.
type scene struct {
	name string
	play func(*act) error
	at   kind
	// lost names a kind of loss that the scene brings with it, so that the watch must not report it.
	lost []string
	// bare scenes need an empty stage: no streams are open during them.
	bare bool
}

var scenes = []scene{
	{name: "herd", play: herd, bare: true},
	{name: "clients leave", play: clientsLeave},
	{name: "slow bodies", play: slowBodies},
	{name: "endpoints come and go", play: churn},
	{name: "sick endpoints", play: sick},
	{name: "endpoint hangs", play: hangs},
	{name: "endpoint dies", play: dies},
	{name: "endpoint cuts answers", play: cuts},
	{name: "endpoint fails at once", play: failsFast},
	{name: "endpoint refuses at once", play: refusesFast},
	{name: "bad requests of a client", play: badClient},
	{name: "everything at random", play: nemesis},
	{name: "clients leave the queue", play: queued(leaveQueue)},
	{name: "queue removed", play: queueRemoved},
	{name: "many wait", play: manyWait, bare: true},
	vmLost("fatal"), vmLost("stack"), vmLost("memory"),
	{
		name: "VM lost while requests wait", play: queued(vmLostWaiting), at: trapped,
		lost: []string{"wasm.warmgate.vm_reload_success"},
	},
	{name: "cluster dies", play: clusterDies, at: among},
	{name: "cluster slow", play: clusterSlow, at: among},
	{name: "cluster fails at once", play: clusterFails, at: among},
	{name: "target cluster forged", play: forgedClusters, at: among},
	{name: "clusters and policies at random", play: clustersAtRandom, at: among},
	inRegions("region partitioned", rateAbove, partitioned),
	inRegions("regions alone", rateAbove, lone),
	inRegions("region cut off", rateAbove, isolated(true)),
	inRegions("gateways cut off", rateAbove, isolated(false)),
	inRegions("region slow by 1 s", rateAbove, slow),
	inRegions("region frozen and adopted", rateAbove, frozen),
	inRegions("region killed and adopted", rateAbove, killed),
	inRegions("hops forged", rateBelow, forgedHops),
	inRegions("region lies", rateAbove, lying),
}

// act is a scene being played.
type act struct {
	settings
	ctx     context.Context
	place   *place
	site    *audit.Site
	rand    *rand.Rand
	streams *audit.Streams // nil in a bare scene
	result  result
	// mayCut is how many of the streams the scene has cut.
	mayCut int
}

func newAct(ctx context.Context, s settings, p *place, scene string) *act {
	a := &act{
		settings: s, ctx: ctx, place: p, site: p.site, rand: rand.New(rand.NewPCG(s.seed, 0)),
		result: result{Scene: scene, Figures: map[string]float64{}},
	}
	if s.inRedis {
		a.result.redisResult = &redisResult{}
	}
	return a
}

// bench returns the name of the run.
func (s settings) bench() string {
	if s.inRedis {
		return "chaos-redis"
	}
	return "chaos"
}

// chosen returns the scenes to play at places of a kind: of those of the given names, or that have one of these in
// their names if none is called so.
func (s settings) chosen(at kind) []scene {
	all := scenes
	if s.inRedis {
		all = redisScenes
	}
	wanted := func(c scene) bool {
		return slices.ContainsFunc(s.only, func(name string) bool {
			called := func(c scene) bool { return c.name == name }
			return called(c) || !slices.ContainsFunc(all, called) && strings.Contains(c.name, name)
		})
	}
	return slices.DeleteFunc(slices.Clone(all), func(c scene) bool {
		if s.oneSite && c.at == shipped {
			c.at = trapped
		}
		return c.at != at || len(s.only) > 0 && !wanted(c)
	})
}

// run plays the scenes and returns the figures also when there is an error. After a violation in one scene the others
// are still played.
func run(ctx context.Context, s settings) (figures, error) {
	f := figures{Bench: s.bench(), Seed: s.seed}
	if s.span == 0 {
		s.span = 10 * time.Second
		if s.inRedis {
			s.span = 3 * time.Second
		}
	}
	var errs []error
	for at := shipped; at <= clustered; at++ {
		if list := s.chosen(at); len(list) > 0 {
			errs = append(errs, s.playAll(ctx, at, list, &f))
		}
	}
	for _, r := range f.Scenes {
		f.Requests += r.Requests
		f.Failed += r.Failed
		f.Excused += r.Excused
	}
	if len(f.Scenes) == 0 && len(errs) == 0 {
		errs = append(errs, fmt.Errorf("no scene is called %q", s.only))
	}
	if f.judgement = judge(f.Scenes); f.judgement != nil {
		fmt.Fprintln(s.progress, f.judgement)
	}
	return f, errors.Join(errs...)
}

// playAll plays scenes at a place of their own.
func (s settings) playAll(ctx context.Context, at kind, list []scene, f *figures) error {
	p, err := openPlace(ctx, s, at)
	if err != nil {
		return err
	}
	var errs []error
	for _, c := range list {
		a := newAct(ctx, s, p, c.name)
		if err := a.perform(c); err != nil {
			f.Violations++
			errs = append(errs, fmt.Errorf("%s: %w", c.name, err))
			fmt.Fprintf(s.progress, "%-28s VIOLATION: %v\n", c.name, err)
		}
		f.Scenes = append(f.Scenes, a.result)
		if ctx.Err() != nil {
			break
		}
	}
	if len(errs) > 0 {
		errs = append(errs, fmt.Errorf("the log of the first gateway ends:\n%s", audit.Tail(p.site.Gateway.Logs())))
	}
	return errors.Join(append(errs, p.close())...)
}

// longAnswer is the tokens of the streams that are open during a scene: six minutes, also for a busy machine. They are
// ended earlier.
const longAnswer = 3600

// perform plays a scene with streams open, heals what it has broken, and audits.
func (a *act) perform(c scene) error {
	const maxInflight = 1 << 14 // requests that could ever be in flight together here
	start := time.Now()
	if err := a.heal(); err != nil {
		return err
	}
	if !c.bare {
		var err error
		if a.streams, err = a.site.OpenStreams(a.ctx, a.settings.streams, longAnswer); err != nil {
			return err
		}
		defer a.streams.Release()
	}
	before, err := a.place.fallbacks(a.ctx)
	if err != nil {
		return err
	}
	watch := a.site.Watch(a.ctx, maxInflight, c.lost...)
	err = a.audited(c)
	_, seen := watch.Stop()
	after, counted := a.place.fallbacks(a.ctx)
	a.print(time.Since(start), minus(after, before))
	return errors.Join(err, seen, counted)
}

// audited plays a scene and what must hold after it.
func (a *act) audited(c scene) error {
	if err := c.play(a); err != nil {
		return err
	}
	if err := a.heal(); err != nil {
		return err
	}
	if a.streams != nil {
		if c.at == among {
			if err := a.auditClusters(); err != nil {
				return err
			}
		}
		if err := a.auditStreams(); err != nil {
			return err
		}
	}
	took, err := a.site.Drained(a.ctx)
	a.result.DrainMS = took.Milliseconds()
	if err == nil && c.at == among {
		err = a.auditClusters()
	}
	return errors.Join(err, a.place.expires())
}

// print writes what a scene has shown in one line.
func (a *act) print(took time.Duration, fallbacks map[string]int) {
	r := &a.result
	if r.redisResult == nil {
		fmt.Fprintf(a.progress, "%-28s %3.0f s, %5d requests, %4d left, %3d failed with a reason, %d without; "+
			"counts equal after %d ms, 0 after %d ms  %v\n",
			r.Scene, took.Seconds(), r.Requests, r.Left, r.Excused, r.Failed, r.AgreeMS, r.DrainMS, r.Figures)
		return
	}
	r.Fallbacks, r.Lost = fallbacks, r.Excused
	fmt.Fprintf(a.progress, "%-28s %3.0f s, %5d requests, %d failed; p99 %.1f ms, then %.1f and %.1f; "+
		"counts equal after %d ms, 0 after %d ms; fell back %v  %v\n", r.Scene, took.Seconds(), r.Requests, r.Failed,
		r.BaseP99MS, r.FirstP99MS, r.LaterP99MS, r.AgreeMS, r.DrainMS, r.Fallbacks, r.Figures)
}

// auditStreams compares all counts while the streams are open, then lets these end.
func (a *act) auditStreams() error {
	took, complete, cut, err := a.site.EndStreams(a.ctx, a.streams)
	a.result.AgreeMS = max(a.result.AgreeMS, took.Milliseconds())
	if err != nil {
		return err
	}
	a.result.Requests += complete + cut
	a.result.Excused += min(cut, a.mayCut)
	if cut > a.mayCut {
		a.result.Failed += cut - a.mayCut
		return fmt.Errorf("%d of %d streams were cut, only %d had reason to be", cut, complete+cut, a.mayCut)
	}
	return nil
}
