package gpu

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/warmgate/warmgate/e2e/traffic"
	"github.com/warmgate/warmgate/internal/accesslog"
	"github.com/warmgate/warmgate/internal/vllmsim"
)

// asEngine in the environment makes this program a server, as the fake Python starts it.
const asEngine = "WARMGATE_TEST_ENGINE"

func TestMain(m *testing.M) {
	if os.Getenv(asEngine) == "" {
		os.Exit(m.Run())
	}
	if err := serve(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve is a simulated server with the command line of vLLM's. It wants a share of a GPU.
func serve(args []string) error {
	option := func(name string) string { return args[slices.Index(args, name)+1] }
	if share := os.Getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"); share != "50" {
		return fmt.Errorf("the share is %q", share)
	}
	if _, err := os.Stat(filepath.Join(os.Getenv("CUDA_MPS_PIPE_DIRECTORY"), "pid")); err != nil {
		return err
	}
	if on := os.Getenv(visibleDevices); on != "GPU-0a" {
		return fmt.Errorf("%s is %q", visibleDevices, on)
	}
	c := traffic.Engine(sequences, 1<<19)
	c.Model, c.MaxModelLen = option("--served-model-name"), modelLength
	c.Tuning.DecodeStepMS = 2
	sim := vllmsim.New(c)
	if err := sim.Start("127.0.0.1:0"); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	front := &http.Server{ReadHeaderTimeout: time.Minute, Addr: net.JoinHostPort(option("--host"), option("--port"))}
	front.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.URL.Path == "/reset_prefix_cache" {
			sim.Reset()
			return
		}
		sim.ServeHTTP(w, r)
	})
	go func() {
		<-ctx.Done()
		_ = front.Close()
	}()
	return errors.Join(front.ListenAndServe(), sim.Close())
}

// programs puts fakes of NVIDIA's and Python's into PATH, by which two servers share a GPU, with some text replaced.
func programs(t *testing.T, replaced ...string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	folder, other := t.TempDir(), strings.NewReplacer(replaced...)
	for name, script := range map[string]string{
		smi: "echo " + h200,
		mpsControl: `if [ "$1" = -f ]; then
	echo $$ >"$CUDA_MPS_PIPE_DIRECTORY/pid"
	exec sleep 1000
fi
read -r command rest
case $command in
quit) kill "$(cat "$CUDA_MPS_PIPE_DIRECTORY/pid")" ;;
*) kill -0 "$(cat "$CUDA_MPS_PIPE_DIRECTORY/pid")" ;;
esac`,
		"python3": `case "$1 $2" in
"-c from importlib"*) echo ` + vllmVersion + ` ;;
"-c import torch"*) echo "$((132 * ${CUDA_MPS_ACTIVE_THREAD_PERCENTAGE:-100} / 100))" ;;
*/cuda_model.py*) mkdir "$2" ;;
*/cuda_server.py*) shift; ` + asEngine + `=1 exec ` + self + ` "$@" ;;
*) exit 2 ;;
esac`,
	} {
		text := []byte("#!/bin/sh\n" + other.Replace(script) + "\n")
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv(visibleDevices, "0")
	t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
}

// TestRun plays a short run, from the question of what is missing to the figures, with simulated servers in the place
// of vLLM's.
func TestRun(t *testing.T) {
	programs(t)
	s := usual()
	s.Settings.Rounds, s.Seed, s.Workers = 1, 1, 2
	s.folder, s.engines, s.load, s.sessions = t.TempDir(), 2, 2, 13
	s.works, s.policies = "open,closed", "ring_hash,prefix_cache"
	if err := run(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	kept, err := filepath.Glob(filepath.Join(s.folder, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, path := range kept {
		names = append(names, filepath.Base(path))
	}
	for _, want := range []string{"report.txt", "engine-0.log", "engine-1.log", "mps.log", "model"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is not among %v", want, names)
		}
	}
	traces, _ := filepath.Glob(filepath.Join(s.folder, "*", "*-prefix_cache-*.log"))
	requests, _ := filepath.Glob(filepath.Join(s.folder, "*", "*-*.json"))
	if len(traces) != 2 || len(requests) != 5 { // the capacity is one more
		t.Errorf("%d traces and requests of %d runs in %v", len(traces), len(requests), names)
	}
	for _, name := range traces {
		isTrace(t, name, 4*s.sessions)
	}
	report, err := os.ReadFile(filepath.Join(filepath.Dir(kept[0]), "report.txt"))
	if err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(filepath.Join(filepath.Dir(kept[0]), "result.json"))
	if err != nil || !strings.HasSuffix(strings.TrimSpace(string(report)), string(written)) {
		t.Errorf("result.json is not the last line: %s, %v", written, err)
	}
	line := gjson.ParseBytes(written)
	for _, path := range []string{
		"loads.open.prefix_cache.ttft_ms", "loads.closed.ring_hash.cached", "loads.open.ring_hash.per_token_ms",
		"loads.open.ring_hash.ttft_of_prefix_cache_over.median", "simulated_off_max.ttft_ms",
	} {
		if v := line.Get(path); v.Num <= 0 {
			t.Errorf("%s is %q in %s", path, v.Raw, line.Raw)
		}
	}
	log, err := os.ReadFile(filepath.Join(filepath.Dir(kept[0]), "engine-0.log"))
	if err != nil || !strings.Contains(string(log), http.ErrServerClosed.Error()) {
		t.Errorf("the server was not asked to end: %s, %v", log, err)
	}
	for _, want := range []string{
		"66 of 132 multiprocessors each", "open, prefix_cache", " → ", "fitted to the log of",
	} {
		if !strings.Contains(string(report), want) {
			t.Errorf("the report lacks %q:\n%s", want, report)
		}
	}
	t.Logf("%s", report)
}

// isTrace requires that a file is an access log with so many requests.
func isTrace(t *testing.T, name string, requests int) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	log, err := accesslog.Parse(strings.NewReader(string(text)))
	if err != nil || log.Bad > 0 || len(log.Requests) != requests {
		t.Errorf("%s: %+v, %v", name, log, err)
	}
}

// TestFailedStart has something fail at the start, and says what was printed last.
func TestFailedStart(t *testing.T) {
	for name, c := range map[string]struct {
		engines  int
		replaced []string
		want     []string
	}{
		"a server ends at once": {3, nil, []string{"server 0 does not start", `the share is "33"`}}, // it wants half
		"MPS ends": {
			2,
			[]string{"echo $$", "exit 1; echo $$"},
			[]string{"nvidia-cuda-mps-control does not listen", "mps.log"},
		},
		"no shares": {
			2,
			[]string{"${CUDA_MPS_ACTIVE_THREAD_PERCENTAGE:-100}", "100"},
			[]string{"MPS does not share the GPU: a server would have 132 of 132 multiprocessors"},
		},
		"no CUDA": {
			2,
			[]string{`echo "$((132`, `echo no kernel image >&2; exit 1; echo "$((132`},
			[]string{"CUDA does not work in python3", "no kernel image"},
		},
		"no tokenizers": {
			2,
			[]string{`mkdir "$2"`, "echo No module named tokenizers >&2; exit 1"},
			[]string{"model: ", "No module named tokenizers"},
		},
		"no vLLM": {2, []string{"echo " + vllmVersion, "exit 1"}, []string{"pip install vllm==" + vllmVersion}},
	} {
		t.Run(name, func(t *testing.T) {
			programs(t, c.replaced...)
			s := usual()
			s.Settings.Rounds, s.folder, s.load, s.engines = 1, t.TempDir(), 0.7, c.engines
			s.works, s.policies, s.sessions = "closed", "round_robin", 1 // should it start
			err := run(t.Context(), s)
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v lacks %q", err, want)
				}
			}
		})
	}
}

func TestUnknownNames(t *testing.T) {
	for want, s := range map[string]settings{"random": {policies: "random"}, "huge": {works: "huge"}} {
		if err := run(t.Context(), s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
