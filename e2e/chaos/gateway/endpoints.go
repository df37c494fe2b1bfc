package gateway

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/warmgate/warmgate/e2e/audit"
	"github.com/warmgate/warmgate/e2e/lab"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/internal/vllmsim"
)

// shortly is the time in which a request must be answered in scenes in which many are not.
const shortly = 2 * time.Second

// churn changes the list of endpoints twice a second: any part of them, but never none.
func churn(a *lab.Act) {
	span := a.Span * 3 / 5
	a.Play(lab.Load{Rate: a.Rate, Span: span}, func() {
		a.For(span, func() {
			all := a.Site.Endpoints()
			lab.Check(a.Site.Gateway.PushEndpoints(a.Ctx, lab.Pick(a.Rand, all, 1+a.Rand.IntN(len(all)))))
			a.Result.Figures["pushes"]++
			a.Sleep(500 * time.Millisecond)
		})
	})
}

// sick lets endpoints fail their health checks, although they serve: first a few, which then get no requests, then
// most, then all. No request may be refused for that.
func sick(a *lab.Act) {
	lab.Check(a.Site.AwaitReady(a.Ctx)) // no other endpoint may be unhealthy
	servers := a.Site.Servers()
	few := servers[:max(1, len(servers)/4)]
	some := lab.Load{Rate: a.Rate / 2, Span: a.Span / 3}
	fallIll(a, few)
	before := RequestsOf(few)
	a.Play(some, nil)
	got := RequestsOf(few) - before
	a.Note("to_the_sick", float64(got))
	lab.FailIf(got > 0, "%d requests went to endpoints that were known to be sick", got)
	for _, ill := range [][]*vllmsim.Server{servers[:len(servers)/2+1], servers} {
		fallIll(a, ill)
		a.Play(some, nil)
	}
	for _, reason := range []string{"panic_threshold", "no_healthy_endpoint"} {
		n := a.Sum(`^wasmcustom\.warmgate_decisions_total.*;reason=` + reason + `$`)
		a.Note(reason, n)
		lab.FailIf(n == 0, "no request was counted under reason %s", reason)
	}
}

// fallIll makes the servers' health checks fail and waits until Envoy and then the plugin must have seen it.
func fallIll(a *lab.Act, list []*vllmsim.Server) {
	for _, srv := range list {
		lab.Check(srv.SetMode(vllmsim.ModeSick))
	}
	want := len(a.Site.Servers()) - len(list)
	a.Until(func() {
		healthy := a.Sum(`^cluster\.llm\.membership_healthy$`)
		lab.FailIf(int(healthy) != want, "%v endpoints are healthy, want %d", healthy, want)
	})
	a.Sleep(2500 * time.Millisecond) // two polls of the admin page
}

// hangs lets an endpoint take requests and never answer. The requests that wait there must count, so that it gets no
// more than its share of what is in flight.
func hangs(a *lab.Act) {
	servers := a.Site.Servers()
	bad := servers[0]
	lab.Check(bad.SetMode(vllmsim.ModeHang))
	for _, srv := range servers {
		srv.Reset()
	}
	tally := a.Play(lab.Load{
		Rate: a.Rate, Span: a.Span * 3 / 5, Timeout: shortly, Excused: lab.Of(loadgen.ErrTimeout),
	}, nil)
	// As the servers count: on a busy machine, what comes at once to all is soon answered by the others.
	worst, others := bad.State().MaxInflight, int64(0)
	for _, srv := range servers[1:] {
		others = max(others, srv.State().MaxInflight)
	}
	a.Note("max_on_hanging", float64(worst))
	a.Note("max_on_others", float64(others))
	lab.FailIf(worst > others+1+int64(a.Workers),
		"%d requests waited on the hanging endpoint, never more than %d on another", worst, others)
	n := tally.Failed()
	lab.FailIf(n > tally.Sent/len(servers), "%d of %d requests were lost to one of %d endpoints", n, tally.Sent,
		len(servers))
}

// brokenOff excuses what ends when the server of a request does.
var brokenOff = lab.Of(loadgen.ErrTruncated, loadgen.ErrReset, "status_502", "status_503")

// dies kills an endpoint under traffic and starts it again. Only what it was answering may be lost.
func dies(a *lab.Act) {
	bad := a.Site.Servers()[1%len(a.Site.Servers())]
	a.MayCut = int(a.Streams.Open()[bad.Addr()].All)
	inflight := int64(0)
	a.Play(lab.Load{
		Rate: a.Rate, Span: a.Span / 2,
		// Health checks and ejections run apart from requests: those which the dead endpoint cost count as its own up
		// to the number that it had when it died.
		Excused: func(t audit.Tally) int { return min(brokenOff(t), int(inflight)+a.Workers) },
	}, func() {
		a.Sleep(a.Span / 10)
		inflight = bad.State().Inflight - int64(a.MayCut)
		lab.Check(a.Site.Kill(bad))
	})
	again := lab.Must(a.Site.AddServer(bad.Addr()))
	back := time.Now()
	a.Play(lab.Load{Rate: a.Rate / 2}, func() {
		a.Until(func() {
			lab.FailIf(again.State().Requests == 0, "the endpoint that was started again gets no requests")
		})
	})
	a.Note("back_after_s", time.Since(back).Round(100*time.Millisecond).Seconds())
}

// cuts lets an endpoint break off every answer after its first token.
func cuts(a *lab.Act) {
	bad := a.Site.Servers()[2%len(a.Site.Servers())]
	// Its streams are beyond their first token and break at once.
	a.MayCut = int(a.Streams.Open()[bad.Addr()].All)
	failing(a, bad, vllmsim.ModeReset, a.Span/2, brokenOff)
}

// failsFast has an endpoint answer 500 in a millisecond, which must not make it look idle.
func failsFast(a *lab.Act) {
	failing(a, a.Site.Servers()[3%len(a.Site.Servers())], vllmsim.ModeError, a.Span, lab.Of("status_500"))
}

// refusesFast has an endpoint answer 404 in a millisecond, which must not make it look idle.
func refusesFast(a *lab.Act) {
	bad := a.Site.Servers()[0]
	t := bad.Tuning()
	t.ErrorStatus = http.StatusNotFound
	lab.Check(bad.SetTuning(t))
	failing(a, bad, vllmsim.ModeError, a.Span, lab.Of("status_404"))
}

// failing plays traffic for two spans while an endpoint fails. In the first it must not get more than an even share, in
// the second nearly nothing.
func failing(a *lab.Act, bad *vllmsim.Server, m vllmsim.Mode, span time.Duration, excused func(audit.Tally) int) {
	lab.Check(bad.SetMode(m))
	for _, part := range []struct {
		name  string
		share float64
	}{
		{"share_first", 1 / float64(len(a.Site.Servers()))},
		{"share_then", 0.01},
	} {
		before := bad.State().Requests
		tally := a.Play(lab.Load{Rate: a.Rate, Span: span, Excused: excused}, nil)
		got := float64(bad.State().Requests - before)
		share := got / float64(tally.Sent)
		a.Note(part.name, share)
		// A failing endpoint is tried again from time to time, by each worker: two requests each are no share.
		lab.FailIf(share > part.share && got > float64(2*a.Workers),
			"%s: the failing endpoint got %.2f %% of the requests, more than %.2f %%", part.name, 100*share,
			100*part.share)
	}
}

// badClient has one client send requests that fail at once wherever they go, beside those of others: one in three. No
// endpoint may be ejected for that, by the plugin or by Envoy.
func badClient(a *lab.Act) {
	before := ejections(a)
	client := audit.Client(a.Site.Gateway, "127.0.0.9", time.Minute)
	defer client.Close()
	bad := audit.NewTraffic(client, a.Rate/2, a.Rand.Uint64(), badRequest)
	a.Play(lab.Load{Rate: a.Rate, Span: a.Span}, func() {
		bad.Start(a.Ctx)
		a.Sleep(a.Span)
		bad.Pause()
	})
	more, tally := ejections(a)-before, bad.Tally()
	a.Note("bad_requests", float64(tally.Sent))
	a.Note("ejections", more)
	lab.FailIf(tally.Sent == 0 || tally.Failed() != tally.Sent, "%d of %d bad requests failed: %v", tally.Failed(),
		tally.Sent, tally.Errors)
	lab.FailIf(more > 0, "one client's bad requests ejected %v endpoints", more)
}

// badRequest is a request that every server fails with 500, or refuses with 400.
func badRequest(r *rand.Rand, id int) loadgen.Request {
	q := audit.Short(r, id)
	mark := fmt.Sprintf(`{"sim_status":%d,`, []int{400, 500}[id%2])
	q.Body = append([]byte(mark), bytes.TrimPrefix(q.Body, []byte("{"))...)
	return q
}

// ejections returns how many endpoints the plugin and Envoy have ejected so far. The plugin counts its own every
// second.
func ejections(a *lab.Act) float64 {
	a.Sleep(1500 * time.Millisecond)
	return a.Sum(`^wasmcustom\.warmgate_ejections_total|^cluster\.llm\.outlier_detection\.ejections_enforced_total$`)
}

// RequestsOf returns how many requests the servers have got.
func RequestsOf(list []*vllmsim.Server) (n int64) {
	for _, srv := range list {
		n += srv.State().Requests
	}
	return n
}
