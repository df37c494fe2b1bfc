package gpu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/warmgate/warmgate/e2e/child"
	"github.com/warmgate/warmgate/e2e/freeport"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/realengine/engine"
	"github.com/warmgate/warmgate/e2e/wait"
	"github.com/warmgate/warmgate/internal/simulate/calibrate"
)

// fleet are the engines.
type fleet struct {
	addrs       []string
	processes   []*child.Process
	logs        []string
	mps         *mps   // nil if none share a GPU
	about       string // on what they run, in words
	cacheTokens int    // of each
}

// startFleet makes the model and starts the engines. Their logs are in the folder.
func (m *machine) startFleet(ctx context.Context, s *settings, cards []card, folder string) (*fleet, error) {
	f := &fleet{}
	if err := f.startAll(ctx, m, s, cards, folder); err != nil {
		return nil, errors.Join(err, f.stop())
	}
	return f, nil
}

func (f *fleet) startAll(ctx context.Context, m *machine, s *settings, cards []card, folder string) (err error) {
	scripts, model := filepath.Join(folder, "scripts"), filepath.Join(folder, "model")
	if err := os.CopyFS(scripts, engine.Scripts); err != nil {
		return err
	}
	if _, err := m.ask(ctx, s.python, filepath.Join(scripts, "cuda_model.py"), model, s.shape); err != nil {
		return fmt.Errorf("model: %w", err)
	}
	env, each := os.Environ(), s.shares(cards)
	if each > 1 {
		if f.mps, err = startMPS(ctx, cards, each, folder); err != nil {
			return err
		}
		env = f.mps.env
	}
	if f.about, err = s.describe(ctx, cards, env, each); err != nil {
		return err
	}
	offsets := make([]int, s.engines)
	for i := range offsets {
		offsets[i] = i
	}
	port, err := freeport.Get(offsets...)
	if err != nil {
		return err
	}
	for i := range s.engines {
		args := append([]string{filepath.Join(scripts, "cuda_server.py")}, s.options(model, port+i)...)
		if err := f.start(s, exec.Command(s.python, args...), onCards(env, cards[i%len(cards)]), folder); err != nil {
			return err
		}
		f.addrs = append(f.addrs, net.JoinHostPort("127.0.0.1", strconv.Itoa(port+i)))
	}
	return f.await(ctx)
}

// onCards returns the environment of a program that uses these GPUs. MPS counts those that it uses itself: numbers
// would not mean the same to all.
func onCards(env []string, cards ...card) []string {
	var uuids []string
	for _, c := range cards {
		uuids = append(uuids, c.uuid)
	}
	return append(env[:len(env):len(env)], "CUDA_DEVICE_ORDER=PCI_BUS_ID",
		visibleDevices+"="+strings.Join(uuids, ","))
}

// describe says on what engines run, and that shares of 1/each are in force: without the service, or if it fails, CUDA
// gives a program all of the GPU.
func (s *settings) describe(ctx context.Context, cards []card, env []string, each int) (string, error) {
	whole, err := s.multiprocessors(ctx, onCards(os.Environ(), cards[0]))
	if err != nil {
		return "", err
	}
	part := whole
	if each > 1 {
		if part, err = s.multiprocessors(ctx, onCards(env, cards[0])); err != nil {
			return "", err
		}
	}
	if slack := 2; part > whole/each+slack { // multiprocessors come in pairs
		return "", fmt.Errorf("MPS does not share the GPU: a server would have %d of %d multiprocessors", part, whole)
	}
	c := cards[0]
	return fmt.Sprintf("%d × vLLM %s on %d × %s, driver %s: %d of %d multiprocessors each; %s with random weights, "+
		"%v GB of KV cache each", s.engines, s.version, len(cards), c.name, c.driver, part, whole, s.shape,
		s.cacheGB), nil
}

// multiprocessors returns how many a program has.
func (s *settings) multiprocessors(ctx context.Context, env []string) (n int, err error) {
	cmd := exec.CommandContext(ctx, s.python, "-c",
		"import torch; print(torch.cuda.get_device_properties(0).multi_processor_count)")
	cmd.Env = env
	out, err := cmd.CombinedOutput()
	if err == nil {
		n, err = strconv.Atoi(lastLine(string(out)))
	}
	if err != nil {
		return 0, fmt.Errorf("CUDA does not work in %s: %w %s", s.python, err, lastLine(string(out)))
	}
	return n, nil
}

// start starts an engine.
func (f *fleet) start(s *settings, cmd *exec.Cmd, env []string, folder string) error {
	if s.eager {
		env = append(env, "VLLM_USE_V2_MODEL_RUNNER=0")
	}
	log := filepath.Join(folder, fmt.Sprintf("engine-%d.log", len(f.processes)))
	p, err := startLogged(cmd, log, env)
	if err == nil {
		f.processes, f.logs = append(f.processes, p), append(f.logs, log)
	}
	return err
}

// options returns the command line of an engine.
func (s *settings) options(model string, port int) []string {
	o := []string{
		"--model", model, "--served-model-name", modelName, "--load-format", "dummy", "--dtype", "bfloat16",
		"--host", "127.0.0.1", "--port", strconv.Itoa(port), "--max-model-len", strconv.Itoa(modelLength),
		"--max-num-seqs", strconv.Itoa(sequences), "--max-num-batched-tokens", strconv.Itoa(batchTokens),
		"--gpu-memory-utilization", "0.1", "--kv-cache-memory-bytes", strconv.FormatFloat(s.cacheGB*1e9, 'f', 0, 64),
		"--enable-prefix-caching", "--enable-prompt-tokens-details", "--disable-uvicorn-access-log",
		"--generation-config", "vllm",
	}
	if s.eager {
		return append(o, "--enforce-eager", "--attention-backend", "TRITON_ATTN")
	}
	return append(o, "--compilation-config",
		`{"mode":0,"cudagraph_mode":"FULL_DECODE_ONLY","cudagraph_capture_sizes":[1,2,4,8,12,16,24,32,48,64]}`)
}

// await waits until all engines serve, and asks one how much its cache holds.
func (f *fleet) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for i, addr := range f.addrs {
		err := wait.Poll(ctx, 200*time.Millisecond, func() (bool, error) {
			if err := f.processes[i].Ended(); err != nil {
				return false, err
			}
			_, err := f.call(ctx, http.MethodGet, addr, "/health")
			return err == nil, nil
		})
		if err != nil {
			text, _ := os.ReadFile(f.logs[i])
			return fmt.Errorf("server %d does not start, see %s: %w\n%s", i, f.logs[i], err, tail(string(text), 12))
		}
	}
	page, err := f.call(ctx, http.MethodGet, f.addrs[0], "/metrics")
	if err != nil {
		return err
	}
	of, err := calibrate.Parse(page)
	if f.cacheTokens = of.CacheTokens; err == nil && f.cacheTokens == 0 {
		err = errors.New("the metrics of the engine do not say how much its cache holds")
	}
	return err
}

// tail returns the last n lines.
func tail(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// forget empties the caches of prompts of all engines, which have nothing to do.
func (f *fleet) forget(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, harness.Patience)
	defer cancel()
	for _, addr := range f.addrs {
		if err := wait.Until(ctx, 200*time.Millisecond, func() error {
			_, err := f.call(ctx, http.MethodPost, addr, "/reset_prefix_cache")
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// call makes a request of an engine and returns what it answers with status 200.
func (f *fleet) call(ctx context.Context, method, addr, path string) (string, error) {
	q, err := http.NewRequestWithContext(ctx, method, "http://"+addr+path, nil)
	if err != nil {
		return "", err
	}
	res, err := http.DefaultClient.Do(q)
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }() // it was read
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s%s: status %d", method, addr, path, res.StatusCode)
	}
	return string(text), err
}

// enginePatience is how long engines may take to end when they are asked to.
const enginePatience = 20 * time.Second

// stop ends the engines and what they share.
func (f *fleet) stop() (err error) {
	for _, p := range f.processes {
		err = errors.Join(err, p.Signal(syscall.SIGTERM))
	}
	ctx, cancel := context.WithTimeout(context.Background(), enginePatience)
	defer cancel()
	for _, p := range f.processes {
		select {
		case <-p.Done():
		case <-ctx.Done():
		}
		err = errors.Join(err, p.Kill())
	}
	if f.mps != nil {
		f.mps.stop()
	}
	return err
}
