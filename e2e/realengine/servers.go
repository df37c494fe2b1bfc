package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/warmgate/warmgate/e2e/child"
	"github.com/warmgate/warmgate/e2e/lab"
	"github.com/warmgate/warmgate/e2e/wait"
	"github.com/warmgate/warmgate/internal/enginesim"
	"github.com/warmgate/warmgate/internal/vllmsim"
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
func startEngines(ctx context.Context, e engine, env environment, n int) (list servers, err error) {
	err = lab.Try(func() {
		for i := range n {
			list = append(list, startEngine(ctx, e, env, i))
		}
		for _, s := range list {
			awaitHealth(ctx, e.start, s)
		}
	})
	if err != nil {
		list.stop()
	}
	return list, err
}

// startEngine runs one, which keeps its log beside the model.
func startEngine(ctx context.Context, e engine, env environment, number int) server {
	cmd := exec.Command(env.python, append([]string{env.server, env.model}, e.options...)...)
	out := lab.Must(cmd.StdoutPipe())
	log := lab.Must(os.Create(fmt.Sprintf("%s-%d.log", env.model, number)))
	defer log.Close()
	cmd.Stderr = log
	process := lab.Must(child.Start(cmd))
	finish := func() { _ = process.Kill() } // it may have ended already
	context.AfterFunc(ctx, finish)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		finish()
		lab.Check(fmt.Errorf("the engine does not start, see %s: %w", log.Name(), err))
	}
	return server{url: strings.TrimSpace(line), names: e.names, finish: finish, ended: process.Ended, log: log.Name()}
}

// startSimulated runs n simulated servers of the speed given.
func startSimulated(t vllmsim.Tuning, n, block int) (list servers) {
	for i := range n {
		s := vllmsim.New(vllmsim.Config{
			Index: i, Model: model, Tuning: t, Config: enginesim.Config{
				MaxNumSeqs: slots, MaxModelLen: slotTokens, NumBlocks: slots * slotTokens / block, BlockSize: block,
				MaxLoras: len(held),
			},
		})
		lab.Check(s.Start("127.0.0.1:0"))
		list = append(list, server{url: s.URL(), names: vllmNames, finish: func() { _ = s.Close() }})
	}
	return list
}

// awaitHealth waits until a server answers, as long as it runs.
func awaitHealth(ctx context.Context, limit time.Duration, s server) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	lab.About(fmt.Sprintf("%s does not become healthy, see %s", s.url, s.log), func() {
		lab.Check(wait.Poll(ctx, 50*time.Millisecond, func() (bool, error) {
			err := lab.Try(func() { lab.Ask(ctx, s.url+"/health", true, nil) })
			return err == nil, s.ended()
		}))
	})
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
func (s server) scrape(ctx context.Context) counters {
	return lab.Must(s.names.find(lab.Ask(ctx, s.url+"/metrics", true, nil).Body))
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
