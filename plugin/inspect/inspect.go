// Package inspect shows what the gateway knows to those who may ask (lb_config.inspect): the state of clusters and
// regions, and the latest decisions. Nothing of what requests contain is shown but names of models, cut short.
package inspect

import (
	"strconv"
	"time"

	"github.com/warmgate/warmgate/internal/state"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/apicall"
	"github.com/warmgate/warmgate/plugin/clusters"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/process"
	"github.com/warmgate/warmgate/plugin/regions"
	"github.com/warmgate/warmgate/plugin/stores"
	"github.com/warmgate/warmgate/plugin/views"
)

// Inspector is the part of a VM that shows what the gateway knows.
type Inspector struct {
	*host.Env
	Decisions *Decisions
	core      Core
	clusters  clusters.Known
	stores    *stores.Stores
	views     *views.Views
	regions   *regions.Regions
	wakeAt    func(now, at time.Duration)
	version   string
	watch     watch
	heard     map[string]map[string]lb.Load // what was in flight in Redis, by clusters and endpoints
	toldAt    time.Duration                 // when clusters were last published for other VMs

	shown   shown         // the latest answer
	waiting []func()      // calls that wait for the next one
	due     time.Duration // when that is begun, 0 while it is not put off
	begunAt time.Duration // when that was begun, or put off
}

// Core is what the inspector needs of the VM.
type Core interface {
	// Parts returns the parts of all configurations in force, those of the newest first.
	Parts() []*config.Config
	// IsInspected reports whether one of them has the gateway show what it knows.
	IsInspected() bool
}

// shown is what was answered last.
type shown struct {
	at       time.Duration
	clusters string // as JSON, "" for nothing yet
	leftOut  int
}

const (
	// shownFor is how long an answer is good: many calls cost no more than one for each tick.
	shownFor = process.TickPeriod
	// firstWait is how long the first call of a watcher waits. Within it each VM publishes what it knows.
	firstWait = 5 * process.TickPeriod / 2
	// patience is after what time an answer is begun again that has not come: it may have failed.
	patience = 5 * time.Second
)

// New returns the inspector of a VM of that version. wakeAt has a tick come soon after a time.
func New(
	e *host.Env, core Core, known clusters.Known, s *stores.Stores, v *views.Views, r *regions.Regions,
	wakeAt func(now, at time.Duration), version string,
) *Inspector {
	in := &Inspector{
		Env: e, core: core, clusters: known, stores: s, views: v, regions: r, wakeAt: wakeAt, version: version,
		watch: watch{kv: e.GW.KV(), owner: s.Owner, slot: -1},
	}
	in.Decisions = &Decisions{env: e, watch: &in.watch}
	return in
}

var kinds = []apicall.Kind{
	{Name: "state", Method: "GET"},
	{Name: "explain", Method: "POST", Nested: true, NoBody: true},
}

// NewCall takes in a request to what a configuration shows. explain takes over a call that is to be explained.
func (in *Inspector) NewCall(r apicall.Request, c *config.Inspect, explain func(*apicall.Call)) *apicall.Call {
	var call *apicall.Call
	call = apicall.New(in.Env, r, &apicall.API{
		Path: c.Path, Tokens: []string{string(c.Token)}, Kinds: kinds,
		Run: func(kind int, _ string) {
			if kind > 0 {
				explain(call)
				return
			}
			in.state(call)
		},
	})
	return call
}

// state answers what the gateway knows.
func (in *Inspector) state(call *apicall.Call) {
	since, err := strconv.ParseInt(call.Query("since"), 10, 64)
	if err != nil && call.Query("since") != "" {
		call.Refuse(400, "bad_request", "since: want milliseconds since 1970, at_ms of an earlier answer")
		return
	}
	now := in.ReadClock()
	first := !in.watch.isOn(now)
	in.watch.begin(now)
	answer := func() {
		call.WhenThere(func() { call.Reply(200, "ok", in.answer(in.Clock(), since)) }, nil)
	}
	if in.shown.clusters != "" && now-in.shown.at < shownFor {
		answer()
		return
	}
	in.await(now, first, answer)
}

// await has a call answered with the next answer, which is put off for the first call.
func (in *Inspector) await(now time.Duration, first bool, answer func()) {
	in.waiting = append(in.waiting, answer)
	if len(in.waiting) > 1 && now-in.begunAt < patience {
		return // it comes with the answer to another one
	}
	in.begunAt = now
	if first {
		in.due = now + firstWait
		in.wakeAt(now, in.due)
		return
	}
	in.gather(now)
}

// Explain answers a call with what would become of its request.
func (in *Inspector) Explain(call *apicall.Call, e *state.Explanation) {
	e.Version = in.version
	call.Reply(200, "ok", explanationText(e))
}

// Tick has the VM tell the others what it knows while somebody watches, and answers calls that were put off.
func (in *Inspector) Tick(now time.Duration) {
	if !in.core.IsInspected() && in.due == 0 { // calls from before are still answered
		return
	}
	in.watch.tick(now)
	in.Decisions.tell(now)
	if in.watch.isOn(now) && now-in.toldAt >= stores.HeartbeatPeriod {
		in.toldAt = now
		in.tell(now)
	}
	if in.due > 0 && now >= in.due {
		in.due = 0
		in.gather(now)
	}
}

// done answers all calls that wait.
func (in *Inspector) done() {
	waiting := in.waiting
	in.waiting = nil
	for _, answer := range waiting {
		answer()
	}
}
