package main

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/warmgate/warmgate/e2e/audit"
)

// leaseTTL is how long the plugin waits for an owner of leases before it returns them.
const leaseTTL = 5 * time.Second

// vmLost ends the VM of one worker in a way that the plugin cannot recover from. Its streams are lost with it; those of
// the other workers go on, the worker gets a new VM, and what the old one had counted comes back within the TTL and a
// second.
func vmLost(how string) scene {
	return scene{
		name: "VM lost: " + how, at: trapped,
		lost: []string{"wasm.warmgate.vm_reload_success"},
		play: func(a *act) error { return a.loseVM(how) },
	}
}

func (a *act) loseVM(how string) error {
	const reloads = `^wasm\.warmgate\.vm_reload_success$`
	before, err := a.site.Gateway.Sum(a.ctx, reloads)
	if err != nil {
		return err
	}
	open := a.streams.Len()
	at, err := a.crashVM(how)
	if err != nil {
		return err
	}
	returned, err := a.awaitReturn(at)
	if err != nil {
		return err
	}
	a.mayCut = a.streams.Failed("")
	a.result.Figures["streams_cut"] = float64(a.mayCut)
	if a.mayCut == 0 || a.mayCut >= open {
		return fmt.Errorf("%d of %d streams were cut, want those of one worker", a.mayCut, open)
	}
	// Gauges are up to a second old, and a busy machine may take its time.
	if most := leaseTTL + 2*time.Second + busy; returned > most {
		return fmt.Errorf("the leases of the lost VM came back after %v", returned)
	}
	if now, err := a.site.Gateway.Sum(a.ctx, reloads); err != nil || now != before+1 {
		return errors.Join(err, fmt.Errorf("%v VMs were reloaded, want 1", now-before))
	}
	_, err = a.play(a.rate, a.span/5, time.Minute, nothing, audit.Short, none)
	return err
}

// crashVM ends the VM of the worker that gets the request, and waits until the gateway serves again. It returns when
// the VM was lost.
func (a *act) crashVM(how string) (at time.Time, err error) {
	status, _, err := get(a.ctx, a.site.Gateway.URL(), false, how)
	if err != nil {
		return at, err
	}
	if status == http.StatusOK {
		return at, errors.New("the VM has survived the request that ends it")
	}
	at = time.Now()
	a.result.Requests++
	a.result.Excused++
	if err := a.site.AwaitReady(a.ctx); err != nil {
		return at, fmt.Errorf("the gateway did not recover: %w", err)
	}
	a.result.Figures["serving_after_ms"] = float64(time.Since(at).Milliseconds())
	return at, nil
}

// awaitReturn waits until the streams of the VM that was lost are cut and what it had counted is returned, and returns
// how long after the loss that was.
func (a *act) awaitReturn(lost time.Time) (time.Duration, error) {
	// Envoy cuts the streams of a dead VM when their next token comes.
	if err := a.until(patience, func() error {
		if a.streams.Failed("") == 0 {
			return errors.New("no stream was cut")
		}
		return nil
	}); err != nil {
		return 0, err
	}
	a.sleep(10 * audit.Step)
	if _, _, err := a.site.AgreeWith(a.ctx, a.streams.Open); err != nil {
		return 0, err
	}
	returned := time.Since(lost)
	a.result.Figures["returned_after_ms"] = float64(returned.Milliseconds())
	return returned, nil
}

// busy is what a machine with other work may add to a period.
const busy = 4 * time.Second
