package harness

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/wait"
)

// RejectedError means that Envoy, or the plugin in it, refused a pushed file. The previous one stays in force.
type RejectedError struct {
	File string // the name in the run folder
	Log  string // what Envoy logged since the push
}

// Error implements error.
func (e *RejectedError) Error() string {
	return fmt.Sprintf("harness: Envoy refused %s: %s", e.File, strings.TrimSpace(e.Log))
}

// The statistics in which Envoy counts the outcomes of each watched file.
var subscriptions = map[string]string{
	pluginFile:    "extension_config_discovery.http_filter.warmgate.",
	endpointsFile: "cluster.llm.",
	clustersFile:  "cluster_manager.cds.",
}

// pushTimeout bounds the time until Envoy has accepted or refused a file. New code is compiled on Envoy's main thread.
const pushTimeout = 2 * Patience

// PushPlugin replaces the plugin's configuration. It returns when it is in force for new requests, or a *RejectedError
// when the plugin refused it. "" means the shipped configuration.
func (g *Gateway) PushPlugin(ctx context.Context, config string) error {
	return g.push(ctx, pluginFile, func(doc *yaml.Node) error {
		return g.options.plugin(doc, g.version, g.module, config)
	})
}

// PushModule replaces the plugin's code and its configuration in one step.
func (g *Gateway) PushModule(ctx context.Context, module, config string) error {
	module, err := filepath.Abs(module)
	if err != nil {
		return err
	}
	return g.push(ctx, pluginFile, func(doc *yaml.Node) error {
		g.module = module
		return g.options.plugin(doc, g.version, module, config)
	})
}

// PushNoPlugin puts a filter that does nothing in the plugin's place.
func (g *Gateway) PushNoPlugin(ctx context.Context) error {
	return g.push(ctx, pluginFile, func(doc *yaml.Node) error { return g.options.passThrough(doc, g.version) })
}

// PushEndpoints replaces the list of model servers. An endpoint that is new takes requests once it has passed a health
// check.
func (g *Gateway) PushEndpoints(ctx context.Context, list []Endpoint) error {
	return g.push(ctx, endpointsFile, func(doc *yaml.Node) error { return g.options.endpoints(doc, g.version, list) })
}

// PushCluster switches the native balancing of the cluster. It returns when the new cluster is in use, which is after
// its endpoints' first health checks. Running streams end on the old one.
func (g *Gateway) PushCluster(ctx context.Context, policy Policy) error {
	err := g.push(ctx, clustersFile, func(doc *yaml.Node) error { return g.options.cluster(doc, g.version, policy) })
	if err != nil {
		return err
	}
	return wait.Poll(ctx, 20*time.Millisecond, func() (bool, error) {
		warming, err := g.Sum(ctx, `^cluster_manager\.warming_clusters$`)
		return warming == 0, err
	})
}

// push replaces one watched file by a rename and waits until Envoy has counted it as taken or refused.
func (g *Gateway) push(ctx context.Context, name string, change func(doc *yaml.Node) error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, pushTimeout)
	defer cancel()
	g.version++
	text, err := g.options.render(name, change)
	if err != nil {
		return err
	}
	before, err := g.outcomes(ctx, name)
	if err != nil {
		return err
	}
	logged := len(g.Logs())
	target := filepath.Join(g.dir, name)
	if err := os.WriteFile(target+".new", text, 0o644); err != nil {
		return err
	}
	if err := os.Rename(target+".new", target); err != nil {
		return err
	}
	err = wait.Poll(ctx, 10*time.Millisecond, func() (bool, error) {
		now, err := g.outcomes(ctx, name)
		if err == nil && now.refused > before.refused {
			err = &RejectedError{File: name, Log: g.Logs()[logged:]}
		}
		return now.taken > before.taken, err
	})
	if err != nil {
		return fmt.Errorf("harness: push %s: %w", name, err)
	}
	return nil
}

// outcomes counts the pushes of one file so far.
type outcomes struct{ taken, refused float64 }

func (g *Gateway) outcomes(ctx context.Context, name string) (outcomes, error) {
	prefix := subscriptions[name]
	stats, err := g.Stats(ctx, "^"+strings.ReplaceAll(prefix, ".", `\.`)+"update_")
	return outcomes{
		taken:   stats[prefix+"update_success"],
		refused: stats[prefix+"update_rejected"] + stats[prefix+"update_failure"],
	}, err
}
