package regions

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/bench/router"
	"github.com/warmgate/warmgate/e2e/faultproxy"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/vllmsim"
)

// regions is their number, and names are what they are called. The first has the most users on the skewed load, and the
// central gateway.
const regions = 3

var names = [regions]string{"us", "eu", "asia"}

// stage is servers in each region, with a gateway there, and a central gateway in front of all of them. What goes from
// one region to another goes over a wire.
type stage struct {
	regions [regions]*compare.Stage
	central *compare.Stage
	fleet   *vllmsim.Fleet           // all servers
	servers []*vllmsim.Server        // likewise, by region
	seen    []string                 // ip:port of the servers for one in the first region
	peers   [regions][regions]string // ip:port of the gateway of a region for those in another; "" before it is there
	oneWay  time.Duration            // of each wire
	wires   []*faultproxy.Proxy      // from the first region to the servers of the others
	stop    context.CancelFunc
}

// newStage starts everything. Close ends it.
func newStage(ctx context.Context, s *settings, server vllmsim.Config) (st *stage, err error) {
	st = &stage{fleet: vllmsim.NewFleet(), oneWay: s.rtt / 2}
	wires, stop := context.WithCancel(ctx)
	st.stop = stop
	defer func() {
		if err != nil {
			err = errors.Join(err, st.close())
		}
	}()
	for i := range regions {
		st.regions[i], err = compare.NewStage(ctx, compare.Options{
			Workers: s.Workers, Servers: slices.Repeat([]vllmsim.Config{server}, servers),
			First: compare.RoundRobin, Fleet: st.fleet, Index: i * servers, Edit: st.edit(i),
		})
		if err != nil {
			return st, err
		}
		for _, srv := range st.regions[i].Servers {
			st.servers = append(st.servers, srv)
			if i == 0 {
				st.seen = append(st.seen, srv.Addr())
				continue
			}
			wire, err := faultproxy.Start(wires, srv.Addr())
			if err != nil {
				return st, err
			}
			st.seen, st.wires = append(st.seen, wire.Addr()), append(st.wires, wire)
		}
	}
	if err := st.connect(wires); err != nil {
		return st, err
	}
	st.central, err = compare.NewStage(ctx, compare.Options{
		Workers: s.Workers, Behind: st.seen, First: compare.RoundRobin,
	})
	return st, err
}

// from returns where one region finds what listens at addr in another: behind a wire, which ends with ctx, or, in the
// same region, right there.
func (st *stage) from(ctx context.Context, region, other int, addr string) (string, error) {
	if region == other {
		return addr, nil
	}
	wire, err := faultproxy.Start(ctx, addr)
	if err != nil {
		return "", err
	}
	return wire.Addr(), wire.Set(faultproxy.Wire(st.oneWay))
}

// lengthen sets how long the servers of the other regions are away from the first, one way.
func (st *stage) lengthen(oneWay time.Duration) error {
	var errs []error
	for _, w := range st.wires {
		errs = append(errs, w.Set(faultproxy.Wire(oneWay)))
	}
	return errors.Join(errs...)
}

func (st *stage) close() error {
	var errs []error
	for _, s := range append(st.regions[:], st.central) {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	st.stop()
	return errors.Join(errs...)
}

// gateways returns all, whether they are used or not.
func (st *stage) gateways() []*harness.Gateway {
	all := []*harness.Gateway{st.central.Gateway}
	for _, s := range st.regions {
		all = append(all, s.Gateway)
	}
	return all
}

// reset empties the servers.
func (st *stage) reset() {
	for _, s := range st.servers {
		s.Reset()
	}
	st.fleet.Reset()
}

// front is where the users of each region send to.
type front struct {
	urls [regions]string
	stop func() error
	log  func() string // what a router has logged
}

// begin has the contender take the requests of all regions. Gateways that it does not use rest without a plugin.
func (st *stage) begin(ctx context.Context, c *contender) (*front, error) {
	for i, s := range st.regions {
		p := compare.RoundRobin
		if !c.central {
			p = c.policy(i)
		}
		if err := errors.Join(s.Use(ctx, c.servers), s.Switch(ctx, p)); err != nil {
			return nil, err
		}
	}
	if c.central {
		return st.beginCentral(ctx, c)
	}
	at := &front{stop: func() error { return nil }, log: func() string { return "" }}
	for i, s := range st.regions {
		at.urls[i] = s.Gateway.URL()
	}
	return at, st.central.Switch(ctx, compare.RoundRobin)
}

// beginCentral starts the one gateway or router, and the wires to it.
func (st *stage) beginCentral(ctx context.Context, c *contender) (*front, error) {
	var p compare.Policy
	if c.router == nil {
		p = c.policy(0)
	}
	oneWay := st.oneWay
	if c.near {
		oneWay = 0
	}
	if err := st.lengthen(oneWay); err != nil {
		return nil, err
	}
	center, err := router.Begin(ctx, st.central, p, c.router)
	if err != nil {
		return nil, err
	}
	wires, stop := context.WithCancel(ctx)
	at := &front{log: center.Log, stop: func() error { stop(); return center.Stop() }}
	if c.near {
		at.urls = [regions]string{center.URL, center.URL, center.URL}
		return at, nil
	}
	for i := range at.urls {
		addr, err := st.from(wires, i, 0, strings.TrimPrefix(center.URL, "http://"))
		if err != nil {
			return nil, errors.Join(err, at.stop())
		}
		at.urls[i] = "http://" + addr
	}
	return at, nil
}
