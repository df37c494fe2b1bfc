package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/lab"
	"github.com/warmgate/warmgate/e2e/loadgen"
)

// errPolicy is the error of a policy that did not do with the real servers what it promises.
var errPolicy = errors.New("the policies do not do what they promise")

// finding is one requirement of a policy, and whether it was met.
type finding struct {
	what, got, rule string
	ok              bool
}

// trial tests the plugin's policies on the servers behind a gateway.
type trial struct {
	gateway  *harness.Gateway
	servers  servers
	prompts  uint64    // names the set of prompts used last, as in a target
	findings []finding // of the step under way
}

// play makes steps, each with a gateway of its own, which has learned nothing from the others. It prints what they
// found and fails if not all of it is as promised. One that fails on a machine that stalls is made again, up to so many
// times in all.
func (t *trial) play(ctx context.Context, name string, tries int, steps ...func(context.Context)) {
	began := time.Now()
	for _, step := range steps {
		for try := 1; ; try++ {
			t.gateway, t.findings = startGateway(ctx, t.servers), nil
			lab.Each(func() { step(ctx) }, func() { lab.Check(t.gateway.Stop()) })
			if printFindings(os.Stdout, fmt.Sprintf("two servers of %s, trial %d", name, try), t.findings) {
				break
			}
			if try >= tries {
				lab.Check(errPolicy)
			}
		}
	}
	fmt.Printf("\npolicies hold; %.0f s\n", time.Since(began).Seconds())
}

// found records a finding.
func (t *trial) found(ok bool, what, rule, got string, args ...any) {
	t.findings = append(t.findings, finding{what: what, got: fmt.Sprintf(got, args...), rule: rule, ok: ok})
}

// printFindings writes the findings as a table and reports whether all are as they should be.
func printFindings(w io.Writer, title string, list []finding) bool {
	t := &bench.Table{Head: []string{title, "found", "should be", ""}}
	held := true
	for _, f := range list {
		t.Add(f.what, f.got, f.rule, markOf(f.ok, "NOT HELD"))
		held = held && f.ok
	}
	show(w, t)
	return held
}

// markOf is the last cell of a line.
func markOf(ok bool, not string) string {
	if ok {
		return "ok"
	}
	return not
}

// show prints a table. It goes to the terminal; there is nothing to be done if that fails.
func show(w io.Writer, t *bench.Table) {
	fmt.Fprintln(w)
	_ = t.Write(w)
}

// prober makes a prober of the gateway, with prompts that have not been sent before.
func (t *trial) prober() *prober {
	t.prompts++
	return newProber(target{url: t.gateway.URL(), servers: t.servers, prompts: t.prompts})
}

// medianTTFT is the median time to the first token, ms.
func medianTTFT(samples []loadgen.Sample) float64 {
	return bench.SpreadBy(samples, func(s *loadgen.Sample) float64 { return bench.MS(s.TTFT) }).Median
}
