// Command loadgen plays heavy-tailed chat traffic at a gateway and prints one JSON object with what was measured.
//
//	loadgen -url http://127.0.0.1:8080/v1/chat/completions -rate 50 -count 1000
//	loadgen -url http://127.0.0.1:8080/v1/chat/completions -users 32 -count 1000
//	loadgen -url http://127.0.0.1:8080/ -raw -users 16 -duration 10s
//
// It exits with status 1 if a request failed, and 2 if it was used wrongly.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"time"

	"github.com/warmgate/warmgate/e2e/loadgen"
)

type flags struct {
	url, prompt, output, arrivals, model string
	rate                                 float64
	count, users                         int
	seed                                 uint64
	stream, raw, samples                 bool
	duration, timeout                    time.Duration
	slo                                  loadgen.SLO
}

func parse() flags {
	var f flags
	flag.StringVar(&f.url, "url", "", "where to send requests (required)")
	flag.Float64Var(&f.rate, "rate", 20, "open loop: mean arrivals per second")
	flag.IntVar(&f.users, "users", 0, "closed loop with that many users; 0 = open loop")
	flag.IntVar(&f.count, "count", 200, "requests")
	flag.Uint64Var(&f.seed, "seed", 1, "seed; the same seed sends the same requests at the same times")
	flag.StringVar(&f.arrivals, "arrivals", string(loadgen.Poisson), "poisson or constant")
	flag.StringVar(&f.prompt, "prompt", "lognormal:200,1,8,4000", "prompt tokens: N, lognormal:median,sigma,min,max or pareto:min,alpha,max")
	flag.StringVar(&f.output, "output", "lognormal:40,1,4,800", "answer tokens, in the same forms")
	flag.StringVar(&f.model, "model", "sim", "model named in the requests")
	flag.BoolVar(&f.stream, "stream", true, "ask for server-sent events")
	flag.DurationVar(&f.timeout, "timeout", 5*time.Minute, "limit for one request")
	flag.DurationVar(&f.slo.TTFT, "slo-ttft", 0, "goodput: largest time to first token; 0 = any")
	flag.DurationVar(&f.slo.Total, "slo-total", 0, "goodput: largest latency; 0 = any")
	flag.BoolVar(&f.samples, "samples", false, "print every sample too")
	flag.BoolVar(&f.raw, "raw", false, "send one fixed request as fast as the users can, parsing little")
	flag.DurationVar(&f.duration, "duration", 0, "raw: stop after that long; 0 = after -count requests")
	flag.Parse()
	return f
}

func main() {
	f := parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var result any
	var failed int
	var err error
	if f.raw {
		result, failed, err = runRaw(ctx, f)
	} else {
		result, failed, err = runChat(ctx, f)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "loadgen:", err)
		os.Exit(2)
	}
	if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
		fmt.Fprintln(os.Stderr, "loadgen:", err)
		os.Exit(2)
	}
	if failed > 0 {
		os.Exit(1)
	}
}

func workload(f flags) ([]loadgen.Request, error) {
	prompt, err := loadgen.ParseLengths(f.prompt)
	if err != nil {
		return nil, err
	}
	output, err := loadgen.ParseLengths(f.output)
	if err != nil {
		return nil, err
	}
	return loadgen.Workload{
		Seed: f.seed, Count: f.count, Rate: f.rate, Arrivals: loadgen.Arrivals(f.arrivals),
		Model: f.model, Prompt: prompt, Output: output, Stream: f.stream,
	}.Requests()
}

func runChat(ctx context.Context, f flags) (result any, failed int, err error) {
	if _, err := target(f.url); err != nil {
		return nil, 0, err
	}
	reqs, err := workload(f)
	if err != nil {
		return nil, 0, err
	}
	client := loadgen.NewClient(loadgen.Options{URL: f.url, Timeout: f.timeout})
	defer client.Close()
	var samples []loadgen.Sample
	if f.users > 0 {
		samples = client.ClosedLoop(ctx, reqs, f.users, nil)
	} else {
		samples = client.OpenLoop(ctx, reqs, nil)
	}
	out := struct {
		loadgen.Summary
		Samples []loadgen.Sample `json:"samples,omitempty"`
	}{Summary: loadgen.Summarize(samples, f.slo)}
	if f.samples {
		out.Samples = samples
	}
	return out, out.Failed(), nil
}

func runRaw(ctx context.Context, f flags) (result any, failed int, err error) {
	u, err := target(f.url)
	if err != nil {
		return nil, 0, err
	}
	one := f
	one.count = 1
	reqs, err := workload(one)
	if err != nil {
		return nil, 0, err
	}
	raw := loadgen.Raw{
		Addr: u.Host, Request: loadgen.PostRequest(u.Host, u.RequestURI(), reqs[0].Body),
		Connections: f.users, Duration: f.duration, Timeout: f.timeout,
	}
	if f.duration <= 0 {
		raw.Requests = f.count
	}
	res, err := raw.Run(ctx)
	return res, res.Non200 + res.Errors, err
}

func target(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "http" || u.Port() == "" {
		return nil, fmt.Errorf("-url %q: want http://host:port/path", s)
	}
	return u, nil
}
