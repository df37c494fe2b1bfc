package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/warmgate/warmgate/e2e/audit"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/vllmsim"
)

// refusesFast has an endpoint answer 404 in a millisecond, which must not make it look idle.
func refusesFast(a *act) error {
	bad := a.site.Servers()[0]
	t := bad.Tuning()
	t.ErrorStatus = http.StatusNotFound
	if err := bad.SetTuning(t); err != nil {
		return err
	}
	return a.failing(bad, vllmsim.ModeError, a.span, of("status_404"))
}

// badClient has one client send requests that fail at once wherever they go, beside those of others: one in three. No
// endpoint may be ejected for that, by the plugin or by Envoy.
func badClient(a *act) error {
	before, err := a.ejections()
	if err != nil {
		return err
	}
	client := a.site.Client(0, "127.0.0.9", time.Minute)
	defer client.Close()
	bad := audit.NewTraffic(client, a.rate/2, a.rand.Uint64(), badRequest)
	_, err = a.play(a.rate, a.span, time.Minute, func() error {
		bad.Start(a.ctx)
		a.sleep(a.span)
		bad.Pause()
		return nil
	}, audit.Short, none)
	after, err2 := a.ejections()
	tally := bad.Tally()
	a.result.Figures["bad_requests"], a.result.Figures["ejections"] = float64(tally.Sent), after-before
	switch {
	case err != nil || err2 != nil:
		return errors.Join(err, err2)
	case tally.Sent == 0 || tally.Failed() != tally.Sent:
		return fmt.Errorf("%d of %d bad requests failed: %v", tally.Failed(), tally.Sent, tally.Errors)
	case after > before:
		return fmt.Errorf("one client's bad requests ejected %v endpoints", after-before)
	}
	return nil
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
func (a *act) ejections() (float64, error) {
	a.sleep(1500 * time.Millisecond)
	return a.site.Gateway.Sum(a.ctx, `^wasmcustom\.warmgate_ejections_total|^cluster\.llm\.outlier_detection\.ejections_enforced_total$`)
}
