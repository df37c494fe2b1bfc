package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/warmgate/warmgate/e2e/audit"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/wait"
)

// play sends traffic of the given requests through every gateway for a time, at a rate over all of them, and counts its
// end: excused returns how many failures are the endpoint's own.
func (a *act) play(rate float64, span, timeout time.Duration, during func() error,
	request func(*rand.Rand, int) loadgen.Request, excused func(audit.Tally) int,
) (audit.Tally, error) {
	var all []*audit.Traffic
	for i := range a.site.Gateways {
		client := a.site.Client(i, "", timeout)
		defer client.Close()
		t := audit.NewTraffic(client, rate/float64(len(a.site.Gateways)), a.rand.Uint64(), request)
		t.Start(a.ctx)
		all = append(all, t)
	}
	end := time.Now().Add(span)
	err := during()
	a.sleep(time.Until(end))
	sum := audit.Tally{Errors: map[string]int{}}
	for _, t := range all {
		t.Pause()
		add(&sum, t.Tally())
	}
	return sum, errors.Join(err, a.count(sum, excused))
}

// add adds the fields that count and excuses use.
func add(sum *audit.Tally, t audit.Tally) {
	sum.Sent, sum.OK, sum.Left, sum.Excused = sum.Sent+t.Sent, sum.OK+t.OK, sum.Left+t.Left, sum.Excused+t.Excused
	for kind, n := range t.Errors {
		sum.Errors[kind] += n
	}
	if sum.First == "" {
		sum.First = t.First
	}
}

// count adds up how requests ended.
func (a *act) count(tally audit.Tally, excused func(audit.Tally) int) error {
	may := min(excused(tally), tally.Failed())
	a.result.Requests += tally.Sent
	a.result.Left += tally.Left
	a.result.Excused += tally.Excused + may
	a.result.Failed += tally.Failed() - may
	if tally.Failed() > may {
		return fmt.Errorf("%d of %d requests failed without reason: %v, first: %s",
			tally.Failed()-may, tally.Sent, tally.Errors, tally.First)
	}
	return nil
}

func nothing() error { return nil }

func none(audit.Tally) int { return 0 }

// of returns how many failures of the given kinds there were.
func of(kinds ...string) func(audit.Tally) int {
	return func(t audit.Tally) (n int) {
		for _, k := range kinds {
			n += t.Errors[k]
		}
		return n
	}
}

// minus returns the counts by which a is above b.
func minus(a, b map[string]int) map[string]int {
	out := maps.Clone(a)
	for k := range out {
		if out[k] -= b[k]; out[k] <= 0 {
			delete(out, k)
		}
	}
	return out
}

// arrive has n clients arrive at the same moment, at the addresses in turn, and stay for answers of so many tokens.
func arrive(n, tokens int, addrs ...string) (*loadgen.Crowd, error) {
	body, err := loadgen.ChatBody("sim", "all at once", tokens, true)
	if err != nil {
		return nil, err
	}
	return loadgen.Arrive(addrs, n, loadgen.PostRequest("herd", "/v1/chat/completions", body))
}

// spread records the least and the most requests in flight at a server, which may differ by at most maxApart.
func (a *act) spread(snap audit.Snapshot, maxApart int) error {
	least, most := snap.Spread()
	a.result.Figures["min_inflight"], a.result.Figures["max_inflight"] = float64(least), float64(most)
	if most-least > int64(maxApart) {
		return fmt.Errorf("%d on one server, %d on another: more than %d apart", most, least, maxApart)
	}
	return nil
}

// sleep waits for d or for the end of the run.
func (a *act) sleep(d time.Duration) { _ = wait.For(a.ctx, d) }

// patience bounds the wait for what has to come: on a busy machine that takes long.
const patience = 5 * time.Minute

// until calls check until it succeeds, and returns its last error when that takes longer than the limit.
func (a *act) until(limit time.Duration, check func() error) error {
	ctx, cancel := context.WithTimeout(a.ctx, limit)
	defer cancel()
	return wait.Until(ctx, 50*time.Millisecond, check)
}

var getClient = http.Client{
	Timeout:   patience,
	Transport: &http.Transport{MaxIdleConnsPerHost: 64},
}

// get sends one request that its server answers at once, and returns the status of the answer and how long it took.
// keep reuses a connection; without it the request may come to any worker. how is for the module that can be crashed.
func get(ctx context.Context, url string, keep bool, how string) (status int, took time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/sim/echo", nil)
	if err != nil {
		return 0, 0, err
	}
	if req.Close = !keep; how != "" {
		req.Header.Set("x-warmgate-chaos", how)
	}
	start := time.Now()
	resp, err := getClient.Do(req)
	if err != nil {
		return 0, 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, time.Since(start), err
}
