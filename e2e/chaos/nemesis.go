package main

import (
	"time"

	"github.com/warmgate/warmgate/e2e/audit"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/vllmsim"
)

// nemesis breaks whatever it likes, several things at a time. Requests may fail in any way; what counts is the audit
// that follows.
func nemesis(a *act) error {
	a.mayCut = a.settings.streams
	_, err := a.play(a.rate, a.span, 2*time.Second, func() error {
		for end := time.Now().Add(a.span); time.Now().Before(end) && a.ctx.Err() == nil; {
			if err := a.breakSomething(); err != nil {
				return err
			}
			a.result.Figures["faults"]++
			a.sleep(time.Duration(100+a.rand.IntN(500)) * time.Millisecond)
		}
		return nil
	}, leaver, func(t audit.Tally) int { return t.Failed() })
	return err
}

var badModes = []vllmsim.Mode{
	vllmsim.ModeError, vllmsim.ModeHang, vllmsim.ModeReset, vllmsim.ModeSlow, vllmsim.ModeSick,
}

var anyConfig = []string{
	byTokens("30ms"), byTokens("2s"), audit.Config(), audit.Config(`"shadow":true`), audit.Config(`"max_inflight":3`),
}

// mostEndpoints returns the first endpoint and about two in three of the others.
func (a *act) mostEndpoints() []harness.Endpoint {
	all := a.site.Endpoints()
	list := []harness.Endpoint{all[0]}
	for _, e := range all[1:] {
		if a.rand.IntN(3) > 0 {
			list = append(list, e)
		}
	}
	return list
}

// breakSomething makes one change, for the better or the worse. The first server is left alone, so that a stream
// remains to be audited.
func (a *act) breakSomething() error {
	servers := a.site.Servers()
	srv := servers[1+a.rand.IntN(len(servers)-1)]
	switch a.rand.IntN(8) {
	case 0:
		if !a.site.Dead(srv) {
			return a.site.Kill(srv)
		}
		fallthrough
	case 1:
		if a.site.Dead(srv) {
			_, err := a.site.AddServer(srv.Addr())
			return err
		}
	case 2, 3:
		return srv.SetMode(badModes[a.rand.IntN(len(badModes))])
	case 4, 5:
		return srv.SetMode(vllmsim.ModeOK)
	case 6:
		return a.site.Gateway.PushEndpoints(a.ctx, a.mostEndpoints())
	case 7:
		return a.site.Gateway.PushPlugin(a.ctx, anyConfig[a.rand.IntN(len(anyConfig))])
	}
	return nil
}
