package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/child"
	"github.com/warmgate/warmgate/e2e/wait"
)

// Options configure a gateway. The zero value is the shipped plain layout on the default Envoy with two workers, the
// plugin as built from this tree and no endpoints.
type Options struct {
	Version   string     // of Envoy; "" means DefaultVersion or the binary that ENVOY names
	Workers   int        // worker threads; 0 means 2
	Hardened  bool       // use envoy-hardened.yaml and warmgate-hardened.yaml
	NoPlugin  bool       // start with a filter that does nothing in the plugin's place
	Module    string     // path of a Wasm module to load instead of Warmgate's own
	Config    string     // plugin configuration, JSON; "" means the shipped one
	Endpoints []Endpoint // model servers of the cluster llm
	Policy    Policy     // balancing of the cluster; "" means Warmgate
	// ip:port of a Redis server to add the tunnel to, see envoy-config/redis-tunnel.yaml; "" means none
	Redis     string
	LogLevel  string // Envoy's; "" means warning
	WasmLevel string // log level of the plugin and of Envoy's Wasm host; "" means LogLevel

	// Edit changes a shipped file before it is written, at the start and at every push. It is called with the file's
	// name in the run folder: envoy.yaml, redis-tunnel.yaml, clusters.yaml, endpoints.yaml or warmgate.yaml. See Find,
	// Set and Remove.
	Edit func(file string, doc *yaml.Node) error
}

// Gateway is a running Envoy. Its methods may be called from several goroutines.
type Gateway struct {
	options Options
	dir     string
	binary  string // Envoy's
	addr    string
	process process
	old     []process // that Restart has replaced
	admin   *admin

	mu      sync.Mutex // one push at a time
	version int        // of the last pushed file
	module  string     // of the last push
}

// startTimeout bounds the time until an Envoy answers: compiling the module takes 3 s alone and minutes on a busy
// machine.
const startTimeout = 2 * Patience

// Start renders the shipped configuration into a temporary folder and runs Envoy in it. It returns when the gateway
// takes requests. The gateway runs until Stop, until ctx ends or until this program ends, whichever comes first.
func Start(ctx context.Context, o Options) (*Gateway, error) {
	binary, err := Envoy(ctx, o.Version)
	if err != nil {
		return nil, err
	}
	if o.Module == "" && !o.NoPlugin {
		if o.Module, err = Wasm(ctx, HostEnvoy); err != nil {
			return nil, err
		}
	}
	dir, err := os.MkdirTemp("", "warmgate-")
	if err != nil {
		return nil, err
	}
	g := &Gateway{options: o, dir: dir, binary: binary, admin: newAdmin(dir), module: o.Module, version: 1}
	if err := errors.Join(g.writeAll(), g.run(ctx, "--use-dynamic-base-id", "--base-id-path", baseIDFile)); err != nil {
		return nil, errors.Join(err, g.Stop())
	}
	context.AfterFunc(ctx, func() { g.Stop() })
	ready, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := g.awaitReady(ready); err != nil {
		return nil,
			errors.Join(fmt.Errorf("harness: Envoy does not start: %w\n%s", err, g.LogTail()), g.Stop())
	}
	return g, nil
}

// writeAll renders the four files of the run folder.
func (g *Gateway) writeAll() error {
	o := &g.options
	module, err := filepath.Abs(g.module)
	if err != nil {
		return err
	}
	g.module = module
	pluginChange := func(doc *yaml.Node) error { return o.plugin(doc, g.version, g.module, o.Config) }
	if o.NoPlugin {
		pluginChange = func(doc *yaml.Node) error { return o.passThrough(doc, g.version) }
	}
	for name, change := range map[string]func(*yaml.Node) error{
		bootstrapFile: o.bootstrap,
		clustersFile:  func(doc *yaml.Node) error { return o.cluster(doc, g.version, o.Policy) },
		endpointsFile: func(doc *yaml.Node) error { return o.endpoints(doc, g.version, o.Endpoints) },
		pluginFile:    pluginChange,
	} {
		text, err := o.render(name, change)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(g.dir, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// run starts a process with the arguments added. Envoy resolves the relative paths of the shipped files against the run
// folder.
func (g *Gateway) run(ctx context.Context, args ...string) error {
	level := g.options.LogLevel
	if level == "" {
		level = "warning"
	}
	workers := g.options.Workers
	if workers == 0 {
		workers = 2
	}
	log, err := g.appendTo("envoy.log")
	if err != nil {
		return err
	}
	defer log.Close()
	access, err := g.appendTo("access.log")
	if err != nil {
		return err
	}
	defer access.Close()
	cmd := exec.Command(g.binary, append(args, "--config-path", bootstrapFile, "--concurrency", strconv.Itoa(workers),
		"--log-level", level, "--drain-time-s", "1", "--file-flush-interval-msec", "100")...)
	if g.options.Redis != "" {
		tunnel, err := g.options.render(tunnelFile, g.options.tunnel)
		if err != nil {
			return err
		}
		cmd.Args = append(cmd.Args, "--config-yaml", string(tunnel))
	}
	if g.options.WasmLevel != "" {
		cmd.Args = append(cmd.Args, "--component-log-level", "wasm:"+g.options.WasmLevel)
	}
	cmd.Dir, cmd.Stdout, cmd.Stderr = g.dir, access, log
	if ctx.Err() != nil {
		return ctx.Err()
	}
	g.process.Process, err = child.Start(cmd)
	return err
}

// awaitReady waits until Envoy is live and learns the port that the kernel gave to the listener.
func (g *Gateway) awaitReady(ctx context.Context) error {
	return wait.Poll(ctx, 20*time.Millisecond, func() (bool, error) {
		if err := g.process.Ended(); err != nil {
			return false, err
		}
		if text, err := g.admin.get(ctx, "/ready"); err != nil || !strings.HasPrefix(text, "LIVE") {
			return false, nil
		}
		text, err := g.admin.get(ctx, listenersPage)
		if err != nil {
			return false, err
		}
		g.addr, err = listenerAddr(text, "main")
		return err == nil, err
	})
}

// Listener returns ip:port of a listener that Options.Edit has added.
func (g *Gateway) Listener(ctx context.Context, name string) (string, error) {
	text, err := g.admin.get(ctx, listenersPage)
	if err != nil {
		return "", err
	}
	return listenerAddr(text, name)
}

// listenerAddr finds the address of the listener of that name in the admin page /listeners.
func listenerAddr(text, name string) (string, error) {
	var page struct {
		Listeners []struct {
			Name  string `json:"name"`
			Local struct {
				Socket struct {
					Address string `json:"address"`
					Port    int    `json:"port_value"`
				} `json:"socket_address"`
			} `json:"local_address"`
		} `json:"listener_statuses"`
	}
	if err := json.Unmarshal([]byte(text), &page); err != nil {
		return "", fmt.Errorf("harness: admin /listeners: %w", err)
	}
	for _, l := range page.Listeners {
		if l.Name == name && l.Local.Socket.Port != 0 {
			return fmt.Sprintf("%s:%d", l.Local.Socket.Address, l.Local.Socket.Port), nil
		}
	}
	return "", fmt.Errorf("harness: admin /listeners shows no listener %s: %.200s", name, text)
}

// Addr returns ip:port of the listener.
func (g *Gateway) Addr() string { return g.addr }

// URL returns the listener's address as http://ip:port, without a slash at the end.
func (g *Gateway) URL() string { return "http://" + g.addr }

// PID returns Envoy's process id.
func (g *Gateway) PID() int { return g.process.PID() }

// Dir returns the run folder: the rendered files, envoy.log, access.log and the admin socket. It is deleted by Stop.
func (g *Gateway) Dir() string { return g.dir }

// Logs returns what Envoy and the plugin have logged so far.
func (g *Gateway) Logs() string { return g.read("envoy.log") }

// AccessLog returns the access log so far. Envoy writes it 10 times a second.
func (g *Gateway) AccessLog() string { return g.read("access.log") }

func (g *Gateway) read(name string) string {
	text, err := os.ReadFile(filepath.Join(g.dir, name))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// appendTo opens a file of the run folder that several processes may write to.
func (g *Gateway) appendTo(name string) (*os.File, error) {
	return os.OpenFile(filepath.Join(g.dir, name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
}

// Stop ends Envoy and deletes the run folder. Calling it again does nothing.
func (g *Gateway) Stop() error {
	// The newest first: it requests the counts of the previous one, and breaks off when that is gone.
	for _, p := range slices.Backward(append(g.old, g.process)) {
		if p.Process == nil {
			continue
		}
		if err := p.stop(5 * time.Second); err != nil {
			return err
		}
	}
	g.admin.client.CloseIdleConnections()
	return os.RemoveAll(g.dir)
}

// LogTail returns the end of what Envoy and the plugin have logged, for the text of an error.
func (g *Gateway) LogTail() string {
	const most = 4000
	log := g.Logs()
	return log[max(0, len(log)-most):]
}
