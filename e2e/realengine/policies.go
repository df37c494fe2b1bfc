package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/wait"
)

// errPolicy is the error of a policy that did not do with the real servers what it promises.
var errPolicy = errors.New("the policies do not do what they promise")

// The plugin's configurations of the trial.
const (
	envoyPart     = `"envoy":{"admin_cluster":"warmgate-admin"},"debug_headers":true`
	byCounts      = `{"lb_type":"endpoint","lb_policy":"global_least_request","lb_config":{"unit":"requests",` + envoyPart + `}}`
	byPrefix      = `{"lb_type":"endpoint","lb_policy":"prefix_cache","lb_config":{` + envoyPart + `}}`
	metricsPart   = `"envoy":{"admin_cluster":"warmgate-admin","metrics_cluster":"warmgate-metrics"},"debug_headers":true`
	byMetrics     = `{"lb_type":"endpoint","lb_policy":"endpoint_metrics","lb_config":{"unit":"requests","metrics":{"interval":"500ms"},` + metricsPart + `}}`
	byLoadReports = `{"lb_type":"endpoint","lb_policy":"endpoint_metrics","lb_config":{"unit":"requests","metrics":{"orca":true},` + envoyPart + `}}`
)

// finding is one requirement of a policy, and whether it was met.
type finding struct {
	what, got, rule string
	ok              bool
}

// trial tests the plugin's policies on the servers behind a gateway.
type trial struct {
	engine   engine
	gateway  *harness.Gateway
	servers  servers
	prompts  uint64    // names the set of prompts used last, as in a target
	findings []finding // of the step under way
}

// tryPolicies makes all trials, prints what they found and fails if not all of it is as promised. One that fails on a
// machine that stalls is made again, up to so many times in all.
func tryPolicies(ctx context.Context, e engine, list servers, prompts uint64, tries int) error {
	began := time.Now()
	t := &trial{engine: e, servers: list, prompts: prompts}
	steps := []func(context.Context) error{t.prefixCache, t.sharedPrompt, t.endpointMetrics}
	if e.lora {
		steps = append(steps, t.adapters)
	}
	if e.orca {
		steps = append(steps, t.loadReports)
	}
	for _, step := range steps {
		for try := 1; ; try++ {
			if err := t.alone(ctx, step); err != nil {
				return err
			}
			if printFindings(os.Stdout, fmt.Sprintf("two servers of %s, trial %d", e.name, try), t.findings) {
				break
			}
			if try >= tries {
				return errPolicy
			}
		}
	}
	fmt.Printf("\npolicies hold; %.0f s\n", time.Since(began).Seconds())
	return nil
}

// alone makes one step with a gateway of its own, which has learned nothing from the others.
func (t *trial) alone(ctx context.Context, step func(context.Context) error) error {
	g, err := harness.Start(ctx, harness.Options{Config: byCounts, Endpoints: endpoints(t.servers)})
	if err != nil {
		return err
	}
	t.gateway, t.findings = g, nil
	return errors.Join(step(ctx), g.Stop())
}

// found records a finding.
func (t *trial) found(ok bool, what, rule, got string, args ...any) {
	t.findings = append(t.findings, finding{what: what, got: fmt.Sprintf(got, args...), rule: rule, ok: ok})
}

// printFindings writes the findings as a table and reports whether all are as they should be.
func printFindings(w io.Writer, title string, list []finding) bool {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "\n%s\tfound\tshould be\t\n", title)
	held := true
	for _, f := range list {
		mark := "ok"
		if !f.ok {
			mark, held = "NOT HELD", false
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", f.what, f.got, f.rule, mark)
	}
	// The table goes to the terminal; there is nothing to be done if that fails.
	_ = t.Flush()
	return held
}

// prober makes a prober of the gateway, with prompts that have not been sent before.
func (t *trial) prober() *prober {
	t.prompts++
	return newProber(target{url: t.gateway.URL(), servers: t.servers, prompts: t.prompts})
}

// inTurn sends n requests, so many at once, and returns their outcomes.
func (p *prober) inTurn(ctx context.Context, n, atOnce, prompt, answer int) ([]loadgen.Sample, error) {
	samples, errs := make([]loadgen.Sample, n), make([]error, n)
	turns := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for i := range n {
		ids := p.tokens(prompt)
		turns <- struct{}{}
		wg.Add(1)
		go func() {
			defer wg.Done()
			samples[i], errs[i] = p.send(ctx, ids, answer)
			<-turns
		}()
	}
	wg.Wait()
	return samples, errors.Join(errs...)
}

// medianTTFT is the median time to the first token, ms.
func medianTTFT(samples []loadgen.Sample) float64 {
	var times []float64
	for _, s := range samples {
		times = append(times, bench.MS(s.TTFT))
	}
	return bench.SpreadOf(times).Median
}

// await polls until done returns true. what names the condition in the error.
func await(ctx context.Context, what string, patience time.Duration, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := wait.Poll(ctx, 20*time.Millisecond, done)
	if err != nil {
		err = fmt.Errorf("waiting until %s: %w", what, err)
	}
	return err
}
