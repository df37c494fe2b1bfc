package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/warmgate/warmgate/e2e/audit"
	"github.com/warmgate/warmgate/e2e/faultproxy"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/redisclient"
)

var redisScenes = append(faultScenes(), []scene{
	{name: "herd", play: redisHerd, at: single},
	{name: "clients leave", play: leaveSlowRedis, at: single},
	{name: "gateway killed", play: gatewayKilled, at: single},
	{name: "clients leave the queue", play: queued(leaveQueue), at: single},
	{name: "gateway killed while requests wait", play: queued(gatewayKilledWaiting), at: single},
	faultWaiting("killed"), faultWaiting("frozen"), faultWaiting("data lost"), faultWaiting("one gateway cut off"),
	{name: "everything at random", play: redisNemesis, at: single},
	{name: "cluster", play: cluster, at: clustered},
}...)

func faultScenes() []scene {
	var out []scene
	for _, f := range faults {
		out = append(out, f.scene())
	}
	return out
}

// traffic plays requests through every gateway during something.
func (a *act) traffic(during func() error, request func(*rand.Rand, int) loadgen.Request) error {
	_, err := a.play(a.rate, 0, time.Minute, during, request, none)
	return err
}

// redisHerd lets many clients arrive at the same moment, half of them at each gateway, and stay. Then all leave at
// once. With one view of the load, no server may get more than one request above another.
func redisHerd(a *act) error {
	if err := a.push(patient); err != nil {
		return err
	}
	return errors.Join(a.comeAndGo(), a.push(redisConfig))
}

// push gives every gateway a configuration.
func (a *act) push(text string) error {
	for _, g := range a.site.Gateways {
		if err := g.PushPlugin(a.ctx, text); err != nil {
			return err
		}
	}
	return a.site.AwaitReady(a.ctx)
}

// aMinute is as many tokens as an answer of a minute has: clients of a crowd stay until they leave.
const aMinute = 600

// comeAndGo lets the herd come and go.
func (a *act) comeAndGo() error {
	base := a.streams.Open()
	var addrs []string
	for _, g := range a.site.Gateways {
		addrs = append(addrs, g.Addr())
	}
	crowd, err := arrive(a.settings.herd, aMinute, addrs...)
	if err != nil {
		return err
	}
	defer crowd.Leave()
	a.result.Requests += a.settings.herd
	a.result.Left += a.settings.herd
	want := int64(a.settings.herd)
	for _, c := range base {
		want += c.All
	}
	if err := a.await("the herd does not arrive", func() (bool, error) {
		snap, err := a.site.Snapshot(a.ctx)
		return err == nil && snap.Totals().Server == want && snap.Disagreement() == nil, err
	}); err != nil {
		return err
	}
	snap, err := a.site.Snapshot(a.ctx)
	if err != nil {
		return err
	}
	return a.spread(snap, 1)
}

// hastyLeaver is a request whose client leaves early, often while its reservation is on the way, or stays.
func hastyLeaver(r *rand.Rand, id int) loadgen.Request {
	q := audit.Short(r, id)
	q.MaxTokens = 1 + r.IntN(3)
	switch r.IntN(4) {
	case 0:
		q.Leave = loadgen.Leave{At: loadgen.BeforeFirstByte, After: time.Duration(r.IntN(20)) * time.Millisecond}
	case 1:
		q.Leave = loadgen.Leave{At: loadgen.BeforeFirstByte, After: time.Duration(r.IntN(150)) * time.Millisecond}
	}
	return q
}

// leaveSlowRedis has clients leave while Redis takes nearly as long as it may.
func leaveSlowRedis(a *act) error {
	return a.traffic(func() error {
		if err := ways(faultproxy.Delay(8*time.Millisecond, 6*time.Millisecond))(a); err != nil {
			return err
		}
		a.sleep(a.span)
		return pass(a)
	}, hastyLeaver)
}

// gatewayKilled ends the second gateway with many requests in flight. The first must know of it when the leases expire:
// after 5 s and the second until a heartbeat. Until then it still chooses in Redis: the return of many leases delays no
// request.
func gatewayKilled(a *act) error {
	g := a.site.Gateways[1]
	crowd, err := a.crowdAt(g.Addr())
	if err != nil {
		return err
	}
	defer crowd.Leave() // until then it is in use: the connections of one that is collected would be closed
	lost := a.crowd
	a.mayCut = a.settings.streams / 2 // the streams are opened through the two gateways in turn
	at := time.Now()
	a.result.Excused += lost
	a.result.Requests += lost
	if err := a.unharmed(func() error { return a.kill(g, lost) }); err != nil {
		return err
	}
	if err := a.await("the leases of the dead gateway are not all back", func() (bool, error) {
		totals, leases, err := a.place.counts()
		return sum(totals) == int64(a.streams.Len()) && sum(leases) == int64(a.streams.Len()), err
	}); err != nil {
		return err
	}
	a.result.Figures["returned_after_ms"] = float64(time.Since(at).Milliseconds())
	return a.replace(g)
}

// replace starts the second gateway again after its death.
func (a *act) replace(dead *harness.Gateway) error {
	_ = dead.Stop() // it returns an error, because a signal ended it
	if err := a.site.StartGateway(a.ctx, 1); err != nil {
		return err
	}
	return a.site.AwaitReady(a.ctx)
}

// kill ends a gateway with so many requests in flight, and waits until the leases of half of them are returned.
func (a *act) kill(g *harness.Gateway, lost int) error {
	if err := syscall.Kill(g.PID(), syscall.SIGKILL); err != nil {
		return err
	}
	return a.await("the leases of the dead gateway do not come back", func() (bool, error) {
		_, leases, err := a.place.counts()
		return sum(leases) < int64(a.streams.Len()+lost/2), err
	})
}

// unharmed plays requests through the first gateway during something. They must not fall back from Redis: single ones
// may find it too slow on a busy machine, which the result has among the fallbacks.
func (a *act) unharmed(during func() error) error {
	before, err := fallbacksOf(a.ctx, a.site.Gateways[0])
	if err != nil {
		return err
	}
	client := a.site.Client(0, "", time.Minute)
	defer client.Close()
	t := audit.NewTraffic(client, a.rate/2, a.rand.Uint64(), audit.Short)
	t.Start(a.ctx)
	err = during()
	t.Pause()
	after, counted := fallbacksOf(a.ctx, a.site.Gateways[0])
	if err = errors.Join(err, counted, a.count(t.Tally(), none)); err != nil {
		return err
	}
	fell := minus(after, before)
	a.result.Figures["timeouts_at_other"] = float64(fell["timeout"])
	if delete(fell, "timeout"); len(fell) > 0 {
		return fmt.Errorf("requests at the other gateway fell back: %v", fell)
	}
	return nil
}

// crowdAt opens many streams at one gateway.
func (a *act) crowdAt(addr string) (*loadgen.Crowd, error) {
	crowd, err := arrive(a.crowd, aMinute, addr)
	if err != nil {
		return nil, err
	}
	want := int64(a.crowd + a.streams.Len())
	return crowd, a.await("the crowd is not counted", func() (bool, error) {
		totals, _, err := a.place.counts()
		return sum(totals) == want, err
	})
}

func sum(m map[string]int64) (n int64) {
	for _, v := range m {
		n += v
	}
	return n
}

// cluster moves the slot of the counts around a Redis Cluster, twice slowly, while requests go on.
func cluster(a *act) error {
	slot := redisserver.Slot(redisclient.KeysOf(scope).Table)
	c := a.place.cluster
	return a.traffic(func() error {
		for range 2 * len(c.Servers()) {
			a.sleep(a.span / 6)
			m, err := c.StartMigration(slot, (c.Owner(slot)+1)%len(c.Servers()))
			if err != nil {
				return err
			}
			a.sleep(a.span / 6)
			if err := m.MoveKeys(); err != nil {
				return err
			}
			a.sleep(a.span / 6)
			if err := m.Finish(); err != nil {
				return err
			}
			a.result.Figures["migrations"]++
		}
		a.sleep(a.span)
		return nil
	}, audit.Short)
}
