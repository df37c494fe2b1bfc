// Package gateway has the scenes at a single gateway: clients, endpoints and VMs fail, and requests wait in a queue.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/audit"
	"github.com/warmgate/warmgate/e2e/chaos/waiting"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/lab"
	"github.com/warmgate/warmgate/internal/vllmsim"
)

// Stages returns a gateway with the module as shipped, and one with the module that can be crashed, each with its
// scenes. Together, all scenes are at the latter, which saves the start of a gateway.
func Stages(together bool) []lab.Stage {
	own := func(play func(*lab.Act)) func(*lab.Act) { return waiting.Queued(audit.Config(), audit.Config(), play) }
	scenes := []lab.Scene{
		{Name: "herd", Play: herd, Bare: true},
		{Name: "clients leave", Play: clientsLeave},
		{Name: "slow bodies", Play: slowBodies},
		{Name: "endpoints come and go", Play: churn},
		{Name: "sick endpoints", Play: sick},
		{Name: "endpoint hangs", Play: hangs},
		{Name: "endpoint dies", Play: dies},
		{Name: "endpoint cuts answers", Play: cuts},
		{Name: "endpoint fails at once", Play: failsFast},
		{Name: "endpoint refuses at once", Play: refusesFast},
		{Name: "bad requests of a client", Play: badClient},
		{Name: "everything at random", Play: nemesis},
		{Name: "clients leave the queue", Play: own(waiting.Leavers)},
		{Name: "queue removed", Play: queueRemoved},
		{Name: "many wait", Play: manyWait, Bare: true},
	}
	crashes := []lab.Scene{
		vmLost("fatal"), vmLost("stack"), vmLost("memory"),
		{Name: "VM lost while requests wait", Play: own(vmLostWaiting), Lost: lostVM},
	}
	trapped := func(ctx context.Context) string { return lab.Must(harness.Wasm(ctx, harness.HostEnvoyChaos)) }
	if together {
		return []lab.Stage{stage(append(scenes, crashes...), trapped)}
	}
	return []lab.Stage{stage(scenes, func(context.Context) string { return "" }), stage(crashes, trapped)}
}

// stage returns one gateway with the scenes.
func stage(scenes []lab.Scene, module func(context.Context) string) lab.Stage {
	s := &Stage{Usual: audit.Config()}
	return lab.Stage{
		Scenes: scenes, Heal: s.Heal, Close: s.Close,
		Open: func(ctx context.Context, set *lab.Settings) *audit.Site {
			return s.Open(ctx, set, audit.Options{Module: module(ctx)})
		},
	}
}

// Stage is a gateway, the model servers behind it, and a server of another cluster beside these.
type Stage struct {
	Usual  string          // configuration of the plugin while nothing is broken
	Beside *vllmsim.Server // of the other cluster
	site   *audit.Site
}

// Open starts it.
func (s *Stage) Open(ctx context.Context, set *lab.Settings, o audit.Options) *audit.Site {
	s.Beside = vllmsim.New(vllmsim.Config{Instant: true})
	lab.Check(s.Beside.Start("127.0.0.1:0"))
	first := o.Edit
	o.Config = s.Usual
	o.Edit = func(file string, doc *yaml.Node) error {
		if first != nil {
			if err := first(file, doc); err != nil {
				return err
			}
		}
		return addBeside(s.Beside.Addr(), file, doc)
	}
	s.site = set.Site(ctx, o)
	return s.site
}

// Heal undoes what a scene has broken. Endpoints that were ejected may still be.
func (s *Stage) Heal(a *lab.Act) {
	for _, srv := range s.site.Servers() {
		if s.site.Dead(srv) {
			lab.Must(s.site.AddServer(srv.Addr()))
			continue
		}
		lab.Check(srv.SetTuning(audit.ServerConfig().Tuning))
	}
	lab.Check(s.site.Gateway.PushPlugin(a.Ctx, s.Usual))
	lab.Check(s.site.Gateway.PushEndpoints(a.Ctx, s.site.Endpoints()))
	lab.Check(s.site.AwaitReason(a.Ctx, "chosen"))
}

// Close ends it.
func (s *Stage) Close() error {
	var errs []error
	if s.site != nil {
		errs = append(errs, s.site.Close())
	}
	if s.Beside != nil {
		errs = append(errs, s.Beside.Close())
	}
	return errors.Join(errs...)
}

// queueRemoved pushes configurations without the queue while requests wait: all of them must be served.
func queueRemoved(a *lab.Act) {
	for _, without := range []string{
		strings.Replace(audit.Config(), "{", `{"enabled":false,`, 1),
		audit.Config(fmt.Sprintf(`"max_inflight":%d`, waiting.Taken(a.Settings))),
		audit.Config(`"unit":"tokens"`),
	} {
		lab.About("without a queue by "+without, func() {
			a.Push(waiting.WithQueue(audit.Config(), waiting.Taken(a.Settings)))
			var l waiting.Line
			defer l.Leave()
			l.LineUp(a, a.Crowd)
			lab.Check(a.Site.Gateway.PushPlugin(a.Ctx, without))
			l.Serve(a)
		})
	}
}

// nemesis breaks whatever it likes, several things at a time.
func nemesis(a *lab.Act) { AtRandom(a, a.Rate, 500, func() { breakSomething(a) }) }

// AtRandom breaks something again and again, 100 ms and up to so many more apart. Requests may fail in any way; what
// counts is the audit that follows.
func AtRandom(a *lab.Act, rate float64, moreMS int, wreck func()) {
	a.MayCut = a.Settings.Streams
	a.Play(lab.Load{
		Rate: rate, Span: a.Span, Timeout: shortly, Request: leaver, Excused: lab.AllFailed,
	}, func() {
		a.For(a.Span, func() {
			wreck()
			a.Result.Figures["faults"]++
			a.Sleep(time.Duration(100+a.Rand.IntN(moreMS)) * time.Millisecond)
		})
	})
}

// BadModes are those in which a server does not what it should.
var BadModes = []vllmsim.Mode{
	vllmsim.ModeError, vllmsim.ModeHang, vllmsim.ModeReset, vllmsim.ModeSlow, vllmsim.ModeSick,
}

var anyConfig = []string{
	byTokens("30ms"), byTokens("2s"), audit.Config(), audit.Config(`"shadow":true`), audit.Config(`"max_inflight":3`),
}

// mostEndpoints returns the first endpoint and about two in three of the others.
func mostEndpoints(r *rand.Rand, all []harness.Endpoint) []harness.Endpoint {
	list := []harness.Endpoint{all[0]}
	for _, e := range all[1:] {
		if r.IntN(3) > 0 {
			list = append(list, e)
		}
	}
	return list
}

// breakSomething makes one change, for the better or the worse. The first server is left alone, so that a stream
// remains to be audited.
func breakSomething(a *lab.Act) {
	servers := a.Site.Servers()
	srv := servers[1+a.Rand.IntN(len(servers)-1)]
	dead := a.Site.Dead(srv)
	switch what := a.Rand.IntN(8); {
	case what == 0 && !dead:
		lab.Check(a.Site.Kill(srv))
	case what <= 1 && dead:
		lab.Must(a.Site.AddServer(srv.Addr()))
	case what == 2 || what == 3:
		lab.Check(srv.SetMode(BadModes[a.Rand.IntN(len(BadModes))]))
	case what == 4 || what == 5:
		lab.Check(srv.SetMode(vllmsim.ModeOK))
	case what == 6:
		lab.Check(a.Site.Gateway.PushEndpoints(a.Ctx, mostEndpoints(a.Rand, a.Site.Endpoints())))
	case what == 7:
		lab.Check(a.Site.Gateway.PushPlugin(a.Ctx, anyConfig[a.Rand.IntN(len(anyConfig))]))
	}
}
