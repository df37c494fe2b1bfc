package clusters

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/warmgate/warmgate/e2e/audit"
	"github.com/warmgate/warmgate/e2e/chaos/gateway"
	"github.com/warmgate/warmgate/e2e/lab"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/internal/vllmsim"
)

// againWithin is how long a cluster that works again may get nothing.
const againWithin = 10 * time.Second

// dies kills all servers of a cluster under traffic, where retries may go to another one. Nothing may be lost but
// streams that had begun there. Then the servers come back.
func dies(a *lab.Act) {
	choose(a, choosing(leastBusy, elsewhere))
	const dead = 1
	servers := serversOf(a, dead)
	for _, srv := range servers {
		a.MayCut += int(a.Streams.Open()[srv.Addr()].All)
	}
	begun := int64(0)
	a.Play(lab.Load{
		Rate: a.Rate / 2, Span: a.Span / 2,
		Excused: func(t audit.Tally) int { return min(t.Errors[loadgen.ErrTruncated], int(begun)) },
	}, func() {
		a.Sleep(a.Span / 10)
		for _, srv := range servers {
			begun += srv.State().Inflight
			lab.Check(a.Site.Kill(srv))
		}
	})
	for _, srv := range servers {
		lab.Must(a.Site.AddServer(srv.Addr()))
	}
	again(a, dead, audit.Short)
}

// choose pushes a configuration and waits until it is in force on all workers, which then know all clusters.
func choose(a *lab.Act, config string) {
	lab.Check(a.Site.Gateway.PushPlugin(a.Ctx, config))
	lab.Check(a.Site.AwaitReason(a.Ctx, "chosen"))
}

// share returns which share of the requests a cluster gets during a time, 0 if there are none.
func share(a *lab.Act, i int, span time.Duration) float64 {
	before, all := gateway.RequestsOf(serversOf(a, i)), gateway.RequestsOf(a.Site.Servers())
	a.Sleep(span)
	got, all := gateway.RequestsOf(serversOf(a, i))-before, gateway.RequestsOf(a.Site.Servers())-all
	return float64(got) / float64(max(1, all))
}

// again waits under traffic until a cluster gets a tenth of the requests in a second.
func again(a *lab.Act, i int, request func(*rand.Rand, int) loadgen.Request) {
	back := time.Now()
	a.Play(lab.Load{Rate: a.Rate / 2, Request: request}, func() {
		a.Within(againWithin+4*lab.Busy, func() {
			got := share(a, i, time.Second)
			lab.FailIf(got < 0.1, "a cluster that works again has %.2f of the requests after %v", got, time.Since(back))
		})
	})
	a.Note("back_after_s", time.Since(back).Round(100*time.Millisecond).Seconds())
}

// pair is a request of two tokens, which take time.
func pair(r *rand.Rand, id int) loadgen.Request { return audit.Answer(r, id, 2) }

// slow slows one cluster down to a tenth: it gets less, and its share again once it is as fast as the others.
func slow(a *lab.Act) {
	choose(a, choosing(adaptiveScore, inside))
	const late = 2
	setSite(a, late, vllmsim.ModeSlow)
	got := 0.0
	a.Play(lab.Load{Rate: a.Rate / 4, Span: a.Span / 2, Request: pair}, func() {
		a.Sleep(a.Span / 4)
		got = share(a, late, a.Span/4)
	})
	a.Note("share_slow", got)
	lab.FailIf(got > 1/float64(2*len(siteNames)), "the slow cluster got %.2f of the requests", got)
	setSite(a, late, vllmsim.ModeOK)
	again(a, late, pair)
}

// fails has one cluster answer 500 at once, which must not make it look idle. No scene breaks the first cluster, so
// that there is always one for streams that are to last.
func fails(a *lab.Act) {
	const bad = 1
	setSite(a, bad, vllmsim.ModeError)
	for _, part := range []struct {
		name  string
		share float64
	}{{"share_first", 1.2 / float64(len(siteNames))}, {"share_then", 0.05}} {
		before := gateway.RequestsOf(serversOf(a, bad))
		tally := a.Play(lab.Load{Rate: a.Rate, Span: a.Span / 3, Excused: lab.Of("status_500")}, nil)
		got := float64(gateway.RequestsOf(serversOf(a, bad))-before) / float64(tally.Sent)
		a.Note(part.name, got)
		lab.FailIf(got > part.share, "%s: the failing cluster got %.3f of the requests", part.name, got)
	}
	setSite(a, bad, vllmsim.ModeOK)
	again(a, bad, audit.Short)
}

// choices are configurations that are swapped while requests that others have placed are under way.
var choices = []string{
	choosing(leastBusy, inside), choosing(leastBusy, ""), choosing(leastBusy, elsewhere),
	choosing(adaptiveScore, inside), choosing(leastLatency, inside), choosing(leastRequest, inside),
	choosing(byPrefix, `"endpoint":{"lb_policy":"prefix_cache"},`), choosing(bySession, inside),
	choosing(leastBusy, `"max_inflight":30,"queue":{"max_wait":"1h"},`+inside),
	choosing(leastBusy, `"shadow":true,`), audit.Config(), `{"enabled":false}`,
}

// atRandom breaks whole clusters, in any way, and swaps policies.
func atRandom(a *lab.Act) {
	gateway.AtRandom(a, a.Rate/2, 400, func() { breakCluster(a) })
}

// breakCluster makes one change, for the better or the worse. The first cluster goes on, so that streams remain to be
// audited.
func breakCluster(a *lab.Act) {
	i := 1 + a.Rand.IntN(len(siteNames)-1)
	switch a.Rand.IntN(6) {
	case 0:
		for _, srv := range serversOf(a, i) {
			if !a.Site.Dead(srv) {
				lab.Check(a.Site.Kill(srv))
			}
		}
	case 1:
		setSite(a, i, gateway.BadModes[a.Rand.IntN(len(gateway.BadModes))])
	case 2:
		for _, srv := range serversOf(a, i) {
			if a.Site.Dead(srv) {
				lab.Must(a.Site.AddServer(srv.Addr()))
			}
		}
		setSite(a, i, vllmsim.ModeOK)
	default:
		lab.Check(a.Site.Gateway.PushPlugin(a.Ctx, choices[a.Rand.IntN(len(choices))]))
	}
}

// forged has clients name clusters in the header by which the route takes one: with the plugin on, in shadow, off, and
// without it. What they write never decides, and the server of the other cluster gets nothing.
func forged(a *lab.Act, beside *vllmsim.Server) {
	push := func(config string) { lab.Check(a.Site.Gateway.PushPlugin(a.Ctx, config)) }
	for _, state := range []struct {
		name   string
		begin  func()
		chosen bool // the plugin chooses
	}{
		{"on", func() { choose(a, choosing(leastBusy, inside)) }, true},
		{"shadow", func() { push(choosing(leastBusy, `"shadow":true,`)) }, false},
		{"switched off", func() { push(`{"enabled":false}`) }, false},
		{"no plugin", func() { lab.Check(a.Site.Gateway.PushNoPlugin(a.Ctx)) }, false},
	} {
		state.begin()
		a.Sleep(200 * time.Millisecond) // until all workers have it
		lab.About(state.name, func() { nameClusters(a, a.Forged/4, state.chosen, beside) })
	}
}

// nameClusters sends requests that name a cluster, most of them the first one, and compares where they went.
func nameClusters(a *lab.Act, n int, chosen bool, beside *vllmsim.Server) {
	const header = "x-higress-target-cluster"
	names := []string{
		"llm-a", "beside", "llm-a", "warmgate-admin", "llm-a", "nowhere", "llm-a", "llm-a-first", "llm-a", "\x20",
	}
	before, counts := beside.State().Requests, counted(a)
	a.AskAll(n, func(k int) {
		name := names[k%len(names)]
		h := http.Header{header: {name}} // once or twice, in any case
		switch k % 3 {
		case 1:
			h[strings.ToUpper(header)] = []string{name}
		case 2:
			h[header] = []string{name, "llm-a"}
		}
		a.Ask(a.Site.Gateway.URL()+"/v1/models", true, h)
	})
	got := beside.State().Requests - before
	lab.FailIf(got > 0, "%d requests went to a cluster that only a client named", got)
	now := counted(a)
	for i := range now {
		now[i] -= counts[i]
	}
	// Obeyed names would give the first one three times as many as another one has. Of the others one may still have
	// little, after the scene in which it failed.
	toOwn, toFirst, toOther := now[0], now[1], slices.Max(now[2:])
	lab.FailIf(chosen && (toOwn > 0 || toFirst > 2*toOther) || !chosen && (toOwn != n || toFirst > 0),
		"of %d requests %d went to the cluster that most of them name, %d to another one, %d to the route's own",
		n, toFirst, toOther, toOwn)
}

// counted returns how many requests Envoy has sent to the route's own cluster, and to each that is chosen among.
func counted(a *lab.Act) (counts []int) {
	for _, name := range append([]string{"llm"}, siteNames...) {
		counts = append(counts, int(a.Sum(`^cluster\.`+name+`\.upstream_rq_total$`)))
	}
	return counts
}
