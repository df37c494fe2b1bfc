package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/lab"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/wait"
)

// decision is one request as Warmgate explained it, with what the servers had in flight at that moment.
type decision struct {
	inflight []int // at each server just before the request was sent
	server   int   // chosen
	host     string
	reason   string
	load     string // in flight at the chosen server, this request included
}

// explain shows one decision of the last column in words. It plays the act again and sends requests of its own into it.
func (d *demo) explain(ctx context.Context, a *act) {
	c := d.columns[contenders-1]
	background, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a.play(background, c.stage, contenders-1)
	}()
	var chosen *decision
	err := lab.Try(func() { chosen = probe(ctx, c.stage) })
	cancel()
	<-ended
	lab.Check(err)
	chosen.write(d.screen.out, d.show.gateways*workers)
}

// probe returns a decision that fits its snapshot: traffic continues between the snapshot and the decision, so the
// first one may not fit.
func probe(ctx context.Context, s *compare.Stage) (last *decision) {
	q := loadgen.Request{Stream: true, MaxTokens: 1}
	q.Body = lab.Body("Why this server?", &q)
	for range 20 {
		lab.Check(wait.For(ctx, 250*time.Millisecond))
		inflight := s.Inflight()
		sample := s.Client().Do(ctx, &q, time.Now())
		lab.FailIf(!sample.OK(), "%s", describe(&sample))
		last = &decision{
			inflight: inflight, host: sample.Header.Get("x-warmgate-host"),
			reason: sample.Header.Get("x-warmgate-reason"), load: sample.Header.Get("x-warmgate-load"),
		}
		if last.server = s.ServerAt(last.host); last.server >= 0 && last.fits() {
			return last
		}
	}
	lab.FailIf(last.server < 0, "the gateway did not report which server it chose: host %q, reason %q", last.host,
		last.reason)
	return last
}

// fits reports whether the snapshot is what the decision was made on, and interesting: the servers differ.
func (x *decision) fits() bool {
	least, most := x.inflight[0], x.inflight[0]
	for _, n := range x.inflight {
		least, most = min(least, n), max(most, n)
	}
	return x.load == strconv.Itoa(x.inflight[x.server]+1) && x.inflight[x.server] == least && most > least
}

// write explains the decision that counted the requests of so many workers.
func (x *decision) write(w io.Writer, workers int) {
	t := &bench.Table{Head: []string{"server"}}
	row, speed := []string{"in flight"}, []string{"speed"}
	for i, n := range x.inflight {
		name, count := strconv.Itoa(i), strconv.Itoa(n)
		if i == x.server {
			name, count = "["+name+"]", "["+count+"]"
		}
		t.Head = append(t.Head, name)
		row = append(row, count)
		speed = append(speed, strconv.FormatFloat(speeds[i], 'g', -1, 64))
	}
	t.Add(row...)
	t.Add(speed...)
	fmt.Fprint(w, "\nOne decision, explained (response headers of one more request, debug_headers: true)\n\n")
	lab.Check(t.Write(w))
	fmt.Fprintf(w, "\n  x-warmgate-host: %s\n  x-warmgate-reason: %s\n  x-warmgate-load: %s\n\n%s\n", x.host,
		x.reason, x.load, x.words(workers))
}

// words returns why the server was chosen.
func (x *decision) words(workers int) string {
	var equal []string
	least := x.inflight[x.server]
	for i, n := range x.inflight {
		if n == least && i != x.server {
			equal = append(equal, strconv.Itoa(i))
		}
	}
	why := fmt.Sprintf("Server %d was chosen because it had the least in flight over all %d workers: %d; with this "+
		"request it has %s.",
		x.server, workers, least, x.load)
	if len(equal) > 0 {
		why += fmt.Sprintf(" As few had: %s; ties are broken evenly, because no policy knows the speeds "+
			"(lb_config.weights).",
			strings.Join(equal, ", "))
	}
	if !x.fits() {
		why += " (The counts above were taken a moment before the decision.)"
	}
	return why
}
