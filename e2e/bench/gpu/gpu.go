// Package gpu compares ways to choose among real vLLM servers on NVIDIA GPUs: Envoy's round_robin, least_request and
// ring_hash by session, and Warmgate's global_least_request and prefix_cache with their defaults. All meet the same
// servers with conversations of the same lengths at the same times, in rotating order. Servers have a GPU each, or
// share one by CUDA's Multi-Process Service (MPS).
//
// What the gateway has logged of prefix_cache's requests is a trace, which is then played by simulated servers with
// times that are fitted to it, and compared with what really was.
package gpu

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
)

func parse() (settings, error) {
	var s settings
	s.Flags(3)
	s.WorkersFlag(2)
	flag.StringVar(&s.python, "python", "python3", "the Python that has vLLM")
	flag.StringVar(&s.version, "vllm", vllmVersion, "version of vLLM that has to be there")
	flag.StringVar(&s.shape, "model", "llama-3b", "shapes of the model, whose weights are random: llama-3b or tiny")
	flag.StringVar(&s.folder, "out", "build/out/gpu", "folder for requests, traces and logs of each run")
	flag.IntVar(&s.engines, "engines", 4, "servers")
	flag.IntVar(&s.cards, "gpus", 0, "GPUs at most, those with most free memory; 0: one for each server, as far as "+
		"there are; else servers have shares of one")
	flag.Float64Var(&s.cacheGB, "kv", 10, "KV cache of each server, GB")
	flag.BoolVar(&s.eager, "eager", false, "no CUDA graphs, and attention by Triton, where vLLM cannot do better")
	flag.Float64Var(&s.load, "load", 0.7, "rate of an open loop, as a share of what round_robin gets done")
	flag.IntVar(&s.sessions, "sessions", 0, "sessions of each load; 0: as many as it usually has")
	bench.OnlyFlag(&s.works, "loads", bench.Names(works(), workName))
	bench.OnlyFlag(&s.policies, "policies", bench.Names(policies(), policyName))
	flag.Parse()
	return s, s.check()
}

// Benchmark is to be played.
var Benchmark = bench.New("gpu", parse, run)

func run(ctx context.Context, s settings) error {
	chosen, err := bench.Named(policies(), s.policies, policyName)
	if err != nil {
		return err
	}
	loads, err := bench.Named(works(), s.works, workName)
	if err != nil {
		return err
	}
	m := thisMachine()
	cards, err := m.cardsFor(ctx, &s)
	if err != nil {
		return err
	}
	folder, err := filepath.Abs(filepath.Join(s.folder, time.Now().Format("20060102-150405")))
	if err == nil {
		err = os.MkdirAll(folder, 0o755)
	}
	if err != nil {
		return err
	}
	f, err := m.startFleet(ctx, &s, cards, folder)
	if err != nil {
		return err
	}
	rep := &report{settings: s, fleet: f, policies: chosen, works: loads, folder: folder}
	err = rep.play(ctx)
	stopped := f.stop()
	if err == nil {
		err = rep.publish(os.Stdout)
	}
	return errors.Join(err, stopped)
}
