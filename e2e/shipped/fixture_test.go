package shipped

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/plugin/config"
)

// parse returns a YAML file of the source tree with secrets of its own, for Find and Set.
func parse(t *testing.T, name string) *yaml.Node {
	t.Helper()
	doc := new(yaml.Node)
	if err := yaml.Unmarshal(harness.Own(harness.ReadT(t, name)), doc); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return doc
}

// find returns the node at a path, decoded into a T.
func find[T any](t *testing.T, doc *yaml.Node, where string) T {
	t.Helper()
	var value T
	node, err := harness.Find(doc, where)
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Decode(&value); err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	return value
}

// samePlugin compares a file with warmgate.yaml: it is the same plugin, with a configuration of its own, which it
// returns.
func samePlugin(t *testing.T, file string) *config.Config {
	t.Helper()
	var c *config.Config
	parts := make([]any, 2)
	for i, file := range []string{"warmgate.yaml", file} {
		doc := parse(t, "envoy-config/"+file)
		set, err := config.Parse([]byte(find[string](t, doc, pluginPath+".configuration.value")), config.Envoy)
		if err != nil || len(set.Warnings()) > 0 {
			t.Fatalf("%s: %v %q", file, err, set.Warnings())
		}
		c = set.Match("", "", "")
		if err := errors.Join(harness.Remove(doc, pluginPath+".configuration"), doc.Decode(&parts[i])); err != nil {
			t.Fatal(err)
		}
	}
	for _, different := range append(lacking("", parts[0], parts[1]), lacking("", parts[1], parts[0])...) {
		t.Errorf("%s differs from warmgate.yaml at %s", file, different)
	}
	return c
}

// gateway is an Envoy with the shipped files, and a Redis server of its own with the shipped users.
type gateway struct {
	*harness.Gateway
	redis *redisserver.Server // nil where none is to be had
}

// kept are gateways that tests take over from each other, by layout: each has compiled the plugin for seconds of CPU.
var kept = map[string]gateway{}

func TestMain(m *testing.M) {
	code := m.Run()
	for _, g := range kept {
		err := g.Stop()
		if g.redis != nil {
			err = errors.Join(err, g.redis.Stop())
		}
		if err != nil {
			panic(err)
		}
	}
	os.Exit(code)
}

// take returns the gateway of the layout in o, with o's configuration and endpoints.
func take(t *testing.T, o harness.Options) gateway {
	t.Helper()
	layout := fmt.Sprint(o.Version, o.Hardened)
	g, ok := kept[layout]
	if ok {
		err := errors.Join(g.PushEndpoints(t.Context(), o.Endpoints), g.PushPlugin(t.Context(), o.Config))
		if err != nil {
			t.Fatal(err)
		}
	} else {
		g = start(t, o)
		kept[layout] = g
	}
	logged := len(g.Logs())
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("Envoy's log:\n%s", g.Logs()[logged:])
		}
	})
	return g
}

func start(t *testing.T, o harness.Options) (g gateway) {
	t.Helper()
	server, err := redisserver.Start(context.Background(), redisserver.Options{})
	if err == nil {
		setUsers(t, server)
		g.redis, o.Redis = server, server.Addr()
	} else if !errors.Is(err, redisserver.ErrUnavailable) {
		t.Fatal(err)
	}
	if g.Gateway, err = harness.Start(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	return g
}
