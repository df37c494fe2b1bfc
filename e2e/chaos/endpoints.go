package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/warmgate/warmgate/e2e/audit"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/vllmsim"
)

// churn changes the list of endpoints twice a second: any part of them, but never none.
func churn(a *act) error {
	pushes, span := 0, a.span*3/5
	_, err := a.play(a.rate, span, time.Minute, func() error {
		for end := time.Now().Add(span); time.Now().Before(end) && a.ctx.Err() == nil; pushes++ {
			all := a.site.Endpoints()
			var list []harness.Endpoint
			for _, i := range a.rand.Perm(len(all))[:1+a.rand.IntN(len(all))] {
				list = append(list, all[i])
			}
			if err := a.site.Gateway.PushEndpoints(a.ctx, list); err != nil {
				return err
			}
			a.sleep(500 * time.Millisecond)
		}
		return nil
	}, audit.Short, none)
	a.result.Figures["pushes"] = float64(pushes)
	return err
}

// sick lets endpoints fail their health checks, although they serve: first a few, which then get no requests, then
// most, then all. No request may be refused for that.
func sick(a *act) error {
	if err := a.site.AwaitReady(a.ctx); err != nil { // no other endpoint may be unhealthy
		return err
	}
	servers := a.site.Servers()
	few := max(1, len(servers)/4)
	if err := a.fallIll(servers[:few]); err != nil {
		return err
	}
	before := requestsOf(servers[:few])
	if _, err := a.play(a.rate/2, a.span/3, time.Minute, nothing, audit.Short, none); err != nil {
		return err
	}
	got := requestsOf(servers[:few]) - before
	a.result.Figures["to_the_sick"] = float64(got)
	if got > 0 {
		return fmt.Errorf("%d requests went to endpoints that were known to be sick", got)
	}
	for _, ill := range [][]*vllmsim.Server{servers[:len(servers)/2+1], servers} {
		if err := a.fallIll(ill); err != nil {
			return err
		}
		if _, err := a.play(a.rate/2, a.span/3, time.Minute, nothing, audit.Short, none); err != nil {
			return err
		}
	}
	return a.wants("panic_threshold", "no_healthy_endpoint")
}

// fallIll makes the servers' health checks fail and waits until Envoy and then the plugin must have seen it.
func (a *act) fallIll(list []*vllmsim.Server) error {
	for _, srv := range list {
		if err := srv.SetMode(vllmsim.ModeSick); err != nil {
			return err
		}
	}
	err := a.until(patience, func() error {
		healthy, err := a.site.Gateway.Sum(a.ctx, `^cluster\.llm\.membership_healthy$`)
		if want := len(a.site.Servers()) - len(list); err == nil && int(healthy) != want {
			err = fmt.Errorf("%v endpoints are healthy, want %d", healthy, want)
		}
		return err
	})
	a.sleep(2500 * time.Millisecond) // two polls of the admin page
	return err
}

// wants checks that each of the reasons has occurred.
func (a *act) wants(reasons ...string) error {
	var errs []error
	for _, reason := range reasons {
		n, err := a.site.Gateway.Sum(a.ctx, `^wasmcustom\.warmgate_decisions_total.*;reason=`+reason+`$`)
		a.result.Figures[reason] = n
		if err == nil && n == 0 {
			err = fmt.Errorf("no request was counted under reason %s", reason)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// hangs lets an endpoint take requests and never answer. The requests that wait there must count, so that it gets no
// more than its share of what is in flight.
func hangs(a *act) error {
	servers := a.site.Servers()
	bad := servers[0]
	if err := bad.SetMode(vllmsim.ModeHang); err != nil {
		return err
	}
	for _, srv := range servers {
		srv.Reset()
	}
	tally, err := a.play(a.rate, a.span*3/5, 2*time.Second, nothing, audit.Short, of(loadgen.ErrTimeout))
	// As the servers count: on a busy machine, what comes at once to all is soon answered by the others.
	worst, others := bad.State().MaxInflight, int64(0)
	for _, srv := range servers[1:] {
		others = max(others, srv.State().MaxInflight)
	}
	a.result.Figures["max_on_hanging"], a.result.Figures["max_on_others"] = float64(worst), float64(others)
	if err == nil && worst > others+1+int64(a.workers) {
		err = fmt.Errorf("%d requests waited on the hanging endpoint, never more than %d on another", worst, others)
	}
	if n := tally.Failed(); err == nil && n > tally.Sent/len(servers) {
		err = fmt.Errorf("%d of %d requests were lost to one of %d endpoints", n, tally.Sent, len(servers))
	}
	return err
}

// dies kills an endpoint under traffic and starts it again. Only what it was answering may be lost.
func dies(a *act) error {
	bad := a.site.Servers()[1%len(a.site.Servers())]
	a.mayCut = int(a.streams.Open()[bad.Addr()].All)
	inflight := int64(0)
	lost := of(loadgen.ErrTruncated, loadgen.ErrReset, "status_502", "status_503")
	// Health checks and ejections run apart from requests: those which the dead endpoint cost count as its own up to
	// the number that it had when it died.
	_, err := a.play(a.rate, a.span/2, time.Minute, func() error {
		a.sleep(a.span / 10)
		inflight = bad.State().Inflight - int64(a.mayCut)
		return a.site.Kill(bad)
	}, audit.Short, func(t audit.Tally) int { return min(lost(t), int(inflight)+a.workers) })
	if err != nil {
		return err
	}
	return a.revive(bad)
}

// revive starts a dead endpoint again and waits under traffic until it gets requests.
func (a *act) revive(dead *vllmsim.Server) error {
	again, err := a.site.AddServer(dead.Addr())
	if err != nil {
		return err
	}
	back := time.Now()
	_, err = a.play(a.rate/2, 0, time.Minute, func() error {
		return a.until(patience, func() error {
			if again.State().Requests == 0 {
				return errors.New("the endpoint that was started again gets no requests")
			}
			return nil
		})
	}, audit.Short, none)
	a.result.Figures["back_after_s"] = time.Since(back).Round(100 * time.Millisecond).Seconds()
	return err
}

// cuts lets an endpoint break off every answer after its first token.
func cuts(a *act) error {
	bad := a.site.Servers()[2%len(a.site.Servers())]
	// Its streams are beyond their first token and break at once.
	a.mayCut = int(a.streams.Open()[bad.Addr()].All)
	return a.failing(bad, vllmsim.ModeReset, a.span/2,
		of(loadgen.ErrTruncated, loadgen.ErrReset, "status_502", "status_503"))
}

// failsFast has an endpoint answer 500 in a millisecond, which must not make it look idle.
func failsFast(a *act) error {
	return a.failing(a.site.Servers()[3%len(a.site.Servers())], vllmsim.ModeError, a.span, of("status_500"))
}

// failing plays traffic for two spans while an endpoint fails. In the first it must not get more than an even share, in
// the second nearly nothing.
func (a *act) failing(bad *vllmsim.Server, m vllmsim.Mode, span time.Duration, lost func(audit.Tally) int) error {
	if err := bad.SetMode(m); err != nil {
		return err
	}
	for _, part := range []struct {
		name  string
		share float64
	}{
		{"share_first", 1 / float64(len(a.site.Servers()))},
		{"share_then", 0.01},
	} {
		before := bad.State().Requests
		tally, err := a.play(a.rate, span, time.Minute, nothing, audit.Short, lost)
		got := float64(bad.State().Requests - before)
		share := got / float64(tally.Sent)
		a.result.Figures[part.name] = share
		// A failing endpoint is tried again from time to time, by each worker: two requests each are no share.
		if err == nil && share > part.share && got > float64(2*a.workers) {
			err = fmt.Errorf("%s: the failing endpoint got %.2f %% of the requests, more than %.2f %%", part.name,
				100*share, 100*part.share)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// requestsOf returns how many requests the servers have got.
func requestsOf(list []*vllmsim.Server) (n int64) {
	for _, srv := range list {
		n += srv.State().Requests
	}
	return n
}
