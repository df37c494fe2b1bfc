package shipped

import (
	"errors"
	"fmt"
	"strings"
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

func TestMain(m *testing.M) { harness.Main(m) }

// take is harness.TakeT for the gateway of the layout and the module in o. It has a Redis server of its own with the
// shipped users, nil where none is to be had: then take skips tests that count in Redis.
func take(t *testing.T, o harness.Options) (*harness.Gateway, *redisserver.Server) {
	t.Helper()
	layout := fmt.Sprint(o.Version, o.Hardened, o.Module)
	redis := redisserver.KeptT(t, layout)
	if redis != nil {
		setUsers(t, redis)
		o.Redis = redis.Addr()
	} else if strings.Contains(o.Config, "redis_cluster") {
		t.Skip("there is no Redis server")
	}
	return harness.TakeT(t, layout, o), redis
}

// begin is take, or harness.StartT where o changes files.
func begin(t *testing.T, o harness.Options) *harness.Gateway {
	t.Helper()
	if o.Edit != nil {
		return harness.StartT(t, o)
	}
	g, _ := take(t, o)
	return g
}
