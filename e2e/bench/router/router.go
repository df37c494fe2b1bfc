// Package router runs the cache-aware routers of other projects in the gateway's place, to compare with them.
package router

import (
	"bytes"
	"cmp"
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
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/bench/scripted"
	"github.com/warmgate/warmgate/e2e/child"
	"github.com/warmgate/warmgate/e2e/freeport"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/loadgen"
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

// Contender is one way to find the server for a request: a policy of the gateway, or a router in its place.
type Contender struct {
	Policy compare.Policy // of a router only its name
	Router *Router        // nil = none
	Fresh  bool           // the client opens a connection for each request
	Added  bool           // beside those that are compared with: a variant, or what is no gateway
}

// By is the gateway with a policy.
func By(p compare.Policy) Contender { return Contender{Policy: p} }

// Behind is a router, with arguments in place of its defaults if it is tuned.
func Behind(r *Router, suffix string, tuned ...string) Contender {
	r.Tuned = tuned
	return Contender{Policy: compare.Policy{Name: r.Name + suffix}, Router: r, Fresh: r.Fresh}
}

// Name returns how the contender is called.
func (c *Contender) Name() string { return c.Policy.Name }

// Describe returns what is compared.
func (c *Contender) Describe() string {
	if c.Router != nil {
		return c.Router.Describe()
	}
	return c.Policy.Describe()
}

// Installed returns the contenders without those whose routers cannot be had: these are left out, with a note.
func Installed[C any](ctx context.Context, list []C, of func(*C) *Contender, notes *bench.Notes) ([]C, error) {
	var out []C
	for i := range list {
		if c := of(&list[i]); c.Router != nil {
			if err := c.Router.Install(ctx); err != nil {
				notes.Note("%s: left out, cannot be installed: %v", c.Name(), err)
				continue
			}
		}
		out = append(out, list[i])
	}
	return out, ctx.Err()
}

// patience of the clients: much longer than any wait.
const patience = 2 * time.Minute

// Meet has a client meet the contender at a path, which is that of chats if it is "". The stage is warm then, and its
// servers have empty caches and counts.
func (c *Contender) Meet(ctx context.Context, stage *compare.Stage, path string,
	play func(*loadgen.Client) error,
) (err error) {
	at, err := Begin(ctx, stage, c.Policy, c.Router)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, at.Stop()) }()
	client := loadgen.NewClient(loadgen.Options{
		URL: at.URL + cmp.Or(path, compare.Path), KeepHeaders: compare.DebugHeaders, Timeout: patience, Fresh: c.Fresh,
	})
	defer client.Close()
	if err := scripted.WarmUp(ctx, client, path != "", 4*len(stage.Servers)); err != nil {
		return fmt.Errorf("%w\n%s", err, at.Log())
	}
	for _, s := range stage.Servers {
		s.Reset()
	}
	stage.Fleet.Reset()
	err = play(client)
	return cmp.Or(ctx.Err(), err)
}
