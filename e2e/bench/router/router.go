// Package router runs the cache-aware routers of other projects in the gateway's place, to compare with them.
package router

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/child"
	"github.com/warmgate/warmgate/e2e/freeport"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/pinned"
)

// launcher starts either router.
//
//go:embed router.py
var launcher string

// Router is another project's router. Both come as Python packages around a Rust program.
type Router struct {
	Name   string   // of the package index, and of the file in build/routers that pins it by hash
	Module string   // of Python
	Tuned  []string // arguments in place of defaults
	Note   string   // what to know when its figures are read
	Fresh  bool     // its clients are to open a connection for each request

	effective string // settings in force, JSON; known after Install
	folder    string
}

// VLLM returns vLLM's router.
func VLLM() *Router { return &Router{Name: "vllm-router", Module: "vllm_router"} }

// SGLang returns SGLang's router.
func SGLang() *Router {
	return &Router{
		Name: "sglang-router", Module: "sglang_router", Fresh: true,
		Note: "; clients open a connection for each request, because on a kept connection it delays the first " +
			"token by up to 40 ms",
	}
}

// Install fetches the package once and finds out whether it runs on this machine.
func (r *Router) Install(ctx context.Context) error {
	root, err := harness.Root()
	if err != nil {
		return err
	}
	r.folder = filepath.Join(root, ".cache", r.Name)
	pins := filepath.Join(root, "build", "routers", r.Name+".txt")
	if err := pinned.Once(r.folder, func() error { return r.fetch(ctx, pins) }); err != nil {
		return err
	}
	out, err := r.command(ctx, append([]string{"--describe"}, r.Tuned...)...).Output()
	r.effective = strings.TrimSpace(string(out))
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(failed.Stderr))
	}
	return err
}

// fetch installs the package, as the file pins it, in the router's folder.
func (r *Router) fetch(ctx context.Context, pins string) error {
	partly := r.folder + ".part"
	if err := os.RemoveAll(partly); err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, "python3", "-m", "pip", "install", "--quiet",
		"--disable-pip-version-check", "--no-deps",
		"--only-binary", ":all:", "--require-hashes", "--target", partly, "--requirement", pins).CombinedOutput()
	if err != nil {
		return fmt.Errorf("fetch (needs Python 3 with pip): %w: %s", err, bytes.TrimSpace(out))
	}
	return os.Rename(partly, r.folder)
}

func (r *Router) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "python3", append([]string{"-c", launcher, r.Module}, args...)...)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+r.folder)
	return cmd
}

// arguments are the same for both routers: their defaults but for addresses, the log and what is tuned.
func (r *Router) arguments(port, metricsPort string, servers []string) []string {
	return slices.Concat([]string{
		"--host", "127.0.0.1", "--port", port, "--policy", "cache_aware", "--log-level", "error",
		"--prometheus-host", "127.0.0.1", "--prometheus-port", metricsPort,
	}, r.Tuned, []string{"--worker-urls"}, servers)
}

// Front is where requests are taken.
type Front struct {
	URL  string
	Stop func() error
	Log  func() string // what a router has logged
}

// Start runs the router in front of the servers, given by their URLs. It is new to all prompts. It may not answer yet.
func (r *Router) Start(ctx context.Context, servers []string) (*Front, error) {
	port, err := freeport.Get(1)
	if err != nil {
		return nil, err
	}
	cmd := r.command(context.WithoutCancel(ctx), r.arguments(strconv.Itoa(port), strconv.Itoa(port+1), servers)...)
	log, err := os.CreateTemp("", "warmgate-"+r.Name+"-*.log")
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	process, err := child.Start(cmd)
	if err != nil {
		return nil, errors.Join(err, os.Remove(log.Name()))
	}
	return &Front{
		URL:  "http://127.0.0.1:" + strconv.Itoa(port),
		Stop: func() error { return errors.Join(process.Kill(), os.Remove(log.Name())) },
		Log:  func() string { return tail(log.Name()) },
	}, nil
}

// tail returns the last 2,000 bytes of a file.
func tail(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-2000):])
}

// Describe returns what is compared.
func (r *Router) Describe() string {
	settings := "its defaults"
	if len(r.Tuned) > 0 {
		settings = strings.Join(r.Tuned, " ") + ", else its defaults:"
	}
	return fmt.Sprintf("%s, policy cache_aware with %s %s, a new process for each run, in the gateway's place%s",
		r.pin(), settings, r.effective, r.Note)
}

// pin returns name and version as pinned.
func (r *Router) pin() string {
	root, err := harness.Root()
	if err != nil {
		return r.Name
	}
	text, err := os.ReadFile(filepath.Join(root, "build", "routers", r.Name+".txt"))
	if err != nil {
		return r.Name
	}
	for _, line := range strings.Split(string(text), "\n") {
		if strings.HasPrefix(line, r.Name+"==") {
			return strings.Fields(line)[0]
		}
	}
	return r.Name
}

// Begin has the stage's gateway take requests under the policy, or, unless it is nil, the router in its place, until
// that is stopped.
func Begin(ctx context.Context, stage *compare.Stage, p compare.Policy, r *Router) (*Front, error) {
	if r == nil {
		gateway := &Front{URL: stage.Gateway.URL(), Stop: func() error { return nil }, Log: func() string { return "" }}
		return gateway, stage.Switch(ctx, p)
	}
	return r.Start(ctx, stage.Behind())
}
