package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/warmgate/warmgate/e2e/faultproxy"
)

// wires are the ways from one region to another.
type wires struct {
	gateway *faultproxy.Proxy
	servers []*faultproxy.Proxy // one for each: what adopts them reaches them by these
}

// openWires starts the ways from each region to each other one.
func (w *world) openWires(ctx context.Context) error {
	for _, from := range w.regions {
		w.wires = append(w.wires, nil)
		for _, to := range w.regions {
			var way wires
			var err error
			if from != to {
				way, err = openWire(ctx, to)
			}
			last := len(w.wires) - 1
			w.wires[last] = append(w.wires[last], way)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func openWire(ctx context.Context, to *region) (way wires, err error) {
	if way.gateway, err = faultproxy.Start(ctx, "127.0.0.1:"+strconv.Itoa(to.port)); err != nil {
		return way, err
	}
	for _, addr := range to.addrs {
		wire, err := faultproxy.Start(ctx, addr)
		if err != nil {
			return way, err
		}
		way.servers = append(way.servers, wire)
	}
	return way, nil
}

// all returns the wires to a region's gateway and to its servers.
func (way *wires) all() []*faultproxy.Proxy {
	if way.gateway == nil {
		return nil
	}
	return append([]*faultproxy.Proxy{way.gateway}, way.servers...)
}

// addrs are where the servers are reached.
func (way *wires) addrs() (list []string) {
	for _, wire := range way.servers {
		list = append(list, wire.Addr())
	}
	return list
}

// setWires changes the wires between the gateways of the first region and of the second: to it, and back.
func (w *world) setWires(there, back faultproxy.Mode) error {
	return errors.Join(w.wires[0][1].gateway.Set(there), w.wires[1][0].gateway.Set(back))
}

// cutOff has nothing come through between a region's gateway and the others'. With servers, those of others are not
// reached from either side.
func (w *world) cutOff(i int, servers bool) error {
	var errs []error
	for j := range w.regions {
		if j == i {
			continue
		}
		there, back := &w.wires[i][j], &w.wires[j][i]
		errs = append(errs, there.gateway.Set(faultproxy.Stall()), back.gateway.Set(faultproxy.Stall()))
		if !servers {
			continue
		}
		for _, wire := range slices.Concat(there.servers, back.servers) {
			errs = append(errs, wire.Set(faultproxy.Refuse()))
		}
	}
	return errors.Join(errs...)
}

// mend repairs all wires. The one from the third region to the second is long.
func (w *world) mend() error {
	for i := range w.wires {
		for j := range w.wires[i] {
			for _, wire := range w.wires[i][j].all() {
				if err := wire.Set(faultproxy.Pass()); err != nil {
					return fmt.Errorf("from %s to %s: %w", w.regions[i].name, w.regions[j].name, err)
				}
			}
		}
	}
	return w.wires[2][1].gateway.Set(faultproxy.Wire(farRTT / 2))
}
