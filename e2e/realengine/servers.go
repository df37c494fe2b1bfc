package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/warmgate/warmgate/e2e/child"
	"github.com/warmgate/warmgate/e2e/vllmsim"
)

// server is one model server of either kind.
type server struct {
	url    string
	names  counterNames
	finish func()
	ended  func() error // why the server has ended, nil while it runs; nil for one in this process
	log    string       // path of its log
}

type servers []server

func (s servers) stop() {
	for _, one := range s {
		one.finish()
	}
}

// counterNames are the names under which a kind of server exposes what is compared.
type counterNames struct{ running, waiting, computed, cached, generated string }

var (
	llamaNames = counterNames{
		running:   "llamacpp:requests_processing",
		waiting:   "llamacpp:requests_deferred",
		computed:  "llamacpp:prompt_tokens_total",
		cached:    "llamacpp:prompt_tokens_cached_total",
		generated: "llamacpp:tokens_predicted_total",
	}
	vllmNames = counterNames{
		running:   `vllm:num_requests_running{engine="0",model_name="tiny"}`,
		waiting:   `vllm:num_requests_waiting{engine="0",model_name="tiny"}`,
		computed:  `vllm:prompt_tokens_by_source_total{engine="0",model_name="tiny",source="local_compute"}`,
		cached:    `vllm:prompt_tokens_cached_total{engine="0",model_name="tiny"}`,
		generated: `vllm:generation_tokens_total{engine="0",model_name="tiny"}`,
	}
)

// startEngines runs n servers of an engine.
func startEngines(ctx context.Context, e engine, env environment, n int) (servers, error) {
	var list servers
	for i := range n {
		s, err := startEngine(ctx, e, env, i)
		if err != nil {
			list.stop()
			return nil, err
		}
		list = append(list, s)
	}
	patient, cancel := context.WithTimeout(ctx, e.start)
	defer cancel()
	for _, s := range list {
		if err := awaitHealth(patient, s); err != nil {
			list.stop()
			return nil, err
		}
	}
	return list, nil
}

// startEngine runs one, which keeps its log beside the model.
func startEngine(ctx context.Context, e engine, env environment, number int) (server, error) {
	cmd := exec.Command(env.python, append([]string{env.server, env.model}, e.options...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return server{}, err
	}
	log, err := os.Create(fmt.Sprintf("%s-%d.log", env.model, number))
	if err != nil {
		return server{}, err
	}
	defer log.Close()
	cmd.Stderr = log
	process, err := child.Start(cmd)
	if err != nil {
		return server{}, err
	}
	finish := func() { _ = process.Kill() } // it may have ended already
	context.AfterFunc(ctx, finish)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		finish()
		return server{}, fmt.Errorf("the engine does not start, see %s: %w", log.Name(), err)
	}
	return server{url: strings.TrimSpace(line), names: e.names, finish: finish, ended: process.Ended, log: log.Name()},
		nil
}

// startSimulated runs n simulated servers of the speed given.
func startSimulated(t vllmsim.Tuning, n, block int) (servers, error) {
	var list servers
	for i := range n {
		s := vllmsim.New(vllmsim.Config{
			Index: i, Model: model, MaxNumSeqs: slots, MaxModelLen: slotTokens,
			NumBlocks: slots * slotTokens / block, BlockSize: block, MaxLoras: len(held), Tuning: t,
		})
		if err := s.Start("127.0.0.1:0"); err != nil {
			list.stop()
			return nil, err
		}
		list = append(list, server{url: s.URL(), names: vllmNames, finish: func() { _ = s.Close() }})
	}
	return list, nil
}

// awaitHealth waits until a server answers.
func awaitHealth(ctx context.Context, s server) error {
	for {
		if _, err := get(ctx, s.url+"/health"); err == nil {
			return nil
		}
		if err := s.ended(); err != nil {
			return fmt.Errorf("%w, see %s", err, s.log)
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%s does not become healthy, see %s: %w", s.url, s.log, ctx.Err())
		}
	}
}

// counters are a server's own counts.
type counters struct{ running, waiting, computed, cached, generated float64 }

func (c counters) minus(o counters) counters {
	return counters{
		c.running - o.running, c.waiting - o.waiting, c.computed - o.computed, c.cached - o.cached,
		c.generated - o.generated,
	}
}

// scrape reads a server's counters.
func (s server) scrape(ctx context.Context) (counters, error) {
	text, err := get(ctx, s.url+"/metrics")
	if err != nil {
		return counters{}, err
	}
	return s.names.find(text)
}

// find reads the counters out of a Prometheus exposition. All of them have to be there.
func (n counterNames) find(text string) (counters, error) {
	var c counters
	missing := map[string]*float64{
		n.running: &c.running, n.waiting: &c.waiting, n.computed: &c.computed, n.cached: &c.cached,
		n.generated: &c.generated,
	}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		into, wanted := missing[name]
		if !wanted {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return c, err
		}
		*into = v
		delete(missing, name)
	}
	for name := range missing {
		return c, errors.New("no metric " + name)
	}
	return c, nil
}

func get(ctx context.Context, url string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, resp.Status)
	}
	return string(text), err
}
