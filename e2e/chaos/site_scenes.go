package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/warmgate/warmgate/e2e/audit"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/vllmsim"
	"github.com/warmgate/warmgate/e2e/wait"
)

// againWithin is how long a cluster that works again may get nothing.
const againWithin = 10 * time.Second

// clusterDies kills all servers of a cluster under traffic, where retries may go to another one. Nothing may be lost
// but streams that had begun there. Then the servers come back.
func clusterDies(a *act) error {
	if err := a.choose(choosing(leastBusy, elsewhere)); err != nil {
		return err
	}
	const dead = 1
	servers := a.serversOf(dead)
	for _, srv := range servers {
		a.mayCut += int(a.streams.Open()[srv.Addr()].All)
	}
	begun := int64(0)
	_, err := a.play(a.rate/2, a.span/2, time.Minute, func() error {
		a.sleep(a.span / 10)
		for _, srv := range servers {
			begun += srv.State().Inflight
			if err := a.site.Kill(srv); err != nil {
				return err
			}
		}
		return nil
	}, audit.Short, func(t audit.Tally) int { return min(t.Errors[loadgen.ErrTruncated], int(begun)) })
	for _, srv := range servers {
		_, back := a.site.AddServer(srv.Addr())
		err = errors.Join(err, back)
	}
	if err != nil {
		return err
	}
	return a.again(dead, audit.Short)
}

// choose pushes a configuration and waits until it is in force on all workers, which then know all clusters.
func (a *act) choose(config string) error {
	return errors.Join(a.site.Gateway.PushPlugin(a.ctx, config), a.site.AwaitReason(a.ctx, "chosen"))
}

// again waits under traffic until a cluster gets a tenth of the requests in a second.
func (a *act) again(i int, request func(*rand.Rand, int) loadgen.Request) error {
	back := time.Now()
	_, err := a.play(a.rate/2, 0, time.Minute, func() error {
		ctx, limit := a.ctx, againWithin+4*busy
		for time.Since(back) < limit && ctx.Err() == nil {
			before, all := requestsOf(a.serversOf(i)), requestsOf(a.site.Servers())
			a.sleep(time.Second)
			got, all := requestsOf(a.serversOf(i))-before, requestsOf(a.site.Servers())-all
			if 10*got >= all && all > 0 {
				return nil
			}
		}
		return fmt.Errorf("a cluster that works again has not a tenth of the requests after %v", limit)
	}, request, none)
	a.result.Figures["back_after_s"] = time.Since(back).Round(100 * time.Millisecond).Seconds()
	return err
}

// pair is a request of two tokens, which take time.
func pair(r *rand.Rand, id int) loadgen.Request { return audit.Answer(r, id, 2) }

// clusterSlow slows one cluster down to a tenth: it gets less, and its share again once it is as fast as the others.
func clusterSlow(a *act) error {
	if err := a.choose(choosing(adaptiveScore, inside)); err != nil {
		return err
	}
	const late = 2
	if err := a.setSite(late, vllmsim.ModeSlow); err != nil {
		return err
	}
	share := 0.0
	_, err := a.play(a.rate/4, a.span/2, time.Minute, func() error {
		a.sleep(a.span / 4)
		before, all := requestsOf(a.serversOf(late)), requestsOf(a.site.Servers())
		a.sleep(a.span / 4)
		share = float64(requestsOf(a.serversOf(late))-before) / float64(requestsOf(a.site.Servers())-all)
		return nil
	}, pair, none)
	a.result.Figures["share_slow"] = share
	if err == nil && share > 1/float64(2*len(siteNames)) {
		err = fmt.Errorf("the slow cluster got %.2f of the requests", share)
	}
	if err = errors.Join(err, a.setSite(late, vllmsim.ModeOK)); err != nil {
		return err
	}
	return a.again(late, pair)
}

// clusterFails has one cluster answer 500 at once, which must not make it look idle. No scene breaks the first cluster,
// so that there is always one for streams that are to last.
func clusterFails(a *act) error {
	const bad = 1
	if err := a.setSite(bad, vllmsim.ModeError); err != nil {
		return err
	}
	for _, part := range []struct {
		name  string
		share float64
	}{{"share_first", 1.2 / float64(len(siteNames))}, {"share_then", 0.05}} {
		before := requestsOf(a.serversOf(bad))
		tally, err := a.play(a.rate, a.span/3, time.Minute, nothing, audit.Short, of("status_500"))
		share := float64(requestsOf(a.serversOf(bad))-before) / float64(tally.Sent)
		a.result.Figures[part.name] = share
		if err == nil && share > part.share {
			err = fmt.Errorf("%s: the failing cluster got %.3f of the requests", part.name, share)
		}
		if err != nil {
			return err
		}
	}
	if err := a.setSite(bad, vllmsim.ModeOK); err != nil {
		return err
	}
	return a.again(bad, audit.Short)
}

// choices are configurations that are swapped while requests that others have placed are under way.
var choices = []string{
	choosing(leastBusy, inside), choosing(leastBusy, ""), choosing(leastBusy, elsewhere),
	choosing(adaptiveScore, inside), choosing(leastLatency, inside), choosing(leastRequest, inside),
	choosing(byPrefix, `"endpoint":{"lb_policy":"prefix_cache"},`), choosing(bySession, inside),
	choosing(leastBusy, `"max_inflight":30,"queue":{"max_wait":"1h"},`+inside),
	choosing(leastBusy, `"shadow":true,`), audit.Config(), `{"enabled":false}`,
}

// clustersAtRandom breaks whole clusters, in any way, and swaps policies. Requests may fail in any way; what counts is
// the audit that follows.
func clustersAtRandom(a *act) error {
	a.mayCut = a.settings.streams
	_, err := a.play(a.rate/2, a.span, 2*time.Second, func() error {
		for end := time.Now().Add(a.span); time.Now().Before(end) && a.ctx.Err() == nil; {
			if err := a.breakCluster(); err != nil {
				return err
			}
			a.result.Figures["faults"]++
			a.sleep(time.Duration(100+a.rand.IntN(400)) * time.Millisecond)
		}
		return nil
	}, leaver, func(t audit.Tally) int { return t.Failed() })
	return err
}

// breakCluster makes one change, for the better or the worse. The first cluster goes on, so that streams remain to be
// audited.
func (a *act) breakCluster() error {
	i := 1 + a.rand.IntN(len(siteNames)-1)
	switch a.rand.IntN(6) {
	case 0:
		for _, srv := range a.serversOf(i) {
			if a.site.Dead(srv) {
				continue
			}
			if err := a.site.Kill(srv); err != nil {
				return err
			}
		}
		return nil
	case 1:
		return a.setSite(i, badModes[a.rand.IntN(len(badModes))])
	case 2:
		for _, srv := range a.serversOf(i) {
			if !a.site.Dead(srv) {
				continue
			}
			if _, err := a.site.AddServer(srv.Addr()); err != nil {
				return err
			}
		}
		return a.setSite(i, vllmsim.ModeOK)
	}
	return a.site.Gateway.PushPlugin(a.ctx, choices[a.rand.IntN(len(choices))])
}

// forgedClusters has clients name clusters in the header by which the route takes one: with the plugin on, in shadow,
// off, and without it. What they write never decides.
func forgedClusters(a *act) error {
	push := a.site.Gateway.PushPlugin
	off := func(config string) func() error { return func() error { return push(a.ctx, config) } }
	for _, state := range []struct {
		name   string
		begin  func() error
		chosen bool // the plugin chooses
	}{
		{"on", func() error { return a.choose(a.place.usual) }, true},
		{"shadow", off(choosing(leastBusy, `"shadow":true,`)), false},
		{"switched off", off(`{"enabled":false}`), false},
		{"no plugin", func() error { return a.site.Gateway.PushNoPlugin(a.ctx) }, false},
	} {
		if err := state.begin(); err != nil {
			return err
		}
		a.sleep(200 * time.Millisecond) // until all workers have it
		if err := a.nameClusters(a.forged/4, state.chosen); err != nil {
			return fmt.Errorf("%s: %w", state.name, err)
		}
	}
	return nil
}

// nameClusters sends requests that name a cluster, most of them the first one, and compares where they went.
func (a *act) nameClusters(n int, chosen bool) error {
	names := []string{
		"llm-a", "beside", "llm-a", "warmgate-admin", "llm-a", "nowhere", "llm-a", "llm-a-first", "llm-a", "\x20",
	}
	before := a.place.beside.State().Requests
	counts, err := a.requestsOfClusters()
	if err != nil {
		return err
	}
	const clients = 16
	err = wait.All(clients, func(i int) error {
		for k := i; k < n; k += clients {
			if err := a.nameCluster(names[k%len(names)], k); err != nil {
				return err
			}
		}
		return nil
	})
	a.result.Requests += n
	if err != nil {
		a.result.Failed++
		return err
	}
	if got := a.place.beside.State().Requests - before; got > 0 {
		return fmt.Errorf("%d requests went to a cluster that only a client named", got)
	}
	now, err := a.requestsOfClusters()
	if err != nil {
		return err
	}
	for i := range now {
		now[i] -= counts[i]
	}
	// Obeyed names would give the first one three times as many as another one has. Of the others one may still have
	// little, after the scene in which it failed.
	toOwn, toFirst, toOther := now[0], now[1], slices.Max(now[2:])
	if chosen && (toOwn > 0 || toFirst > 2*toOther) || !chosen && (toOwn != n || toFirst > 0) {
		return fmt.Errorf("of %d requests %d went to the cluster that most of them name, %d to another one, "+
			"%d to the route's own", n, toFirst, toOther, toOwn)
	}
	return nil
}

// requestsOfClusters returns how many requests Envoy has sent to the route's own cluster, and to each that is chosen
// among.
func (a *act) requestsOfClusters() (counts []int, err error) {
	for _, name := range append([]string{"llm"}, siteNames...) {
		n, err := a.site.Gateway.Sum(a.ctx, `^cluster\.`+name+`\.upstream_rq_total$`)
		if err != nil {
			return nil, err
		}
		counts = append(counts, int(n))
	}
	return counts, nil
}

// nameCluster sends a request that names a cluster, once or twice, in any case.
func (a *act) nameCluster(name string, k int) error {
	const header = "x-higress-target-cluster"
	r, err := http.NewRequestWithContext(a.ctx, http.MethodGet, a.site.Gateway.URL()+"/v1/models", nil)
	if err != nil {
		return err
	}
	r.Header[header] = []string{name}
	switch k % 3 {
	case 1:
		r.Header[strings.ToUpper(header)] = []string{name}
	case 2:
		r.Header[header] = []string{name, "llm-a"}
	}
	resp, err := getClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s for a request that names %q", resp.Status, name)
	}
	return nil
}
