package regions

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
)

func yamlText(t *testing.T, n any) string {
	t.Helper()
	out, err := yaml.Marshal(n)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// patches returns what the EnvoyFilter for Higress puts into the configuration of a gateway: a route, a filter, a
// cluster, and what the cluster of the other gateway has beside what is there.
func patches(t *testing.T) (all [4]yaml.Node) {
	t.Helper()
	var filter struct {
		Spec struct {
			Patches []struct {
				Patch struct{ Value yaml.Node }
			} `yaml:"configPatches"`
		}
	}
	if err := yaml.Unmarshal(harness.ReadT(t, "envoy-config/higress-envoyfilter-regions.yaml"), &filter); err != nil {
		t.Fatal(err)
	}
	if len(filter.Spec.Patches) != len(all) {
		t.Fatalf("%d patches", len(filter.Spec.Patches))
	}
	for i := range all {
		all[i] = filter.Spec.Patches[i].Patch.Value
	}
	return all
}

// routeInHigress puts the route and the filter where the EnvoyFilter says.
func routeInHigress(t *testing.T, doc *yaml.Node) error {
	of := patches(t)
	return errors.Join(
		harness.Insert(doc, harness.RoutesPath, "", 0, yamlText(t, []*yaml.Node{&of[0]})),
		harness.Insert(doc, harness.ManagerPath+".http_filters", "", 0, yamlText(t, []*yaml.Node{&of[1]})))
}

// routes puts the route where the files say, and what removes the header that clients send.
func (r *shippedRegion) routes(doc, early *yaml.Node, routes string) error {
	if r.higress {
		return routeInHigress(r.t, doc)
	}
	return errors.Join(
		harness.Set(doc, harness.ManagerPath+".early_header_mutation_extensions", early),
		harness.Insert(doc, harness.RoutesPath, "", 0, routes))
}

// aggregate has the cluster in which retries come home be that of the EnvoyFilter, with the clusters of stock Envoy.
func (r *shippedRegion) aggregate(doc *yaml.Node) error {
	if !r.higress {
		return nil
	}
	of := patches(r.t)
	const clusters = "cluster_type.typed_config.clusters"
	for _, member := range []string{"cluster_type", "circuit_breakers", "lb_policy", "connect_timeout"} {
		var values map[string]yaml.Node
		if err := of[2].Decode(&values); err != nil {
			return err
		}
		value := values[member]
		if err := harness.Set(doc, "resources[name=eu-or-home]."+member, &value); err != nil {
			return err
		}
	}
	var merged map[string]yaml.Node
	if err := of[3].Decode(&merged); err != nil {
		return err
	}
	const options = "typed_extension_protocol_options"
	value := merged[options]
	return errors.Join(
		harness.Set(doc, "resources[name=eu-or-home]."+clusters, []string{"warmgate-peer-eu", "llm"}),
		harness.Set(doc, "resources[name=warmgate-peer-eu]."+options, &value))
}

// TestShippedForHigress runs two regions with the route, the filter and the cluster of the EnvoyFilter for Higress, in
// stock Envoy, as TestShippedFiles does with those for stock Envoy.
func TestShippedForHigress(t *testing.T) {
	us, eu := newShipped(t, harness.DefaultVersion, "us", 1), newShipped(t, harness.DefaultVersion, "eu", 1)
	us.peer, eu.peer, us.higress, eu.higress = eu, us, true, true
	us.run()
	eu.run()
	shippedRegions(t, us, eu)
}

// TestShippedConfiguration runs two regions by the shipped configuration, unchanged but for the debug headers: a server
// is full while requests wait in its engine, as that reports.
func TestShippedConfiguration(t *testing.T) {
	us, eu := newShipped(t, harness.DefaultVersion, "us", 1), newShipped(t, harness.DefaultVersion, "eu", 1)
	us.peer, eu.peer, us.engines, eu.engines = eu, us, true, true
	us.run()
	eu.run()
	us.sees(eu)
	servedIn := func(want *shippedRegion, reason string) {
		t.Helper()
		harness.Await(t, func() error {
			a := harness.Send(t, nil, http.MethodGet, us.URL()+path, "")
			if a.Status != http.StatusOK || a.Header.Get("x-server") != want.name || a.Reason() != reason {
				return fmt.Errorf("want it served in %s: %+v", want.name, a)
			}
			return nil
		})
	}
	servedIn(us, "chosen")
	var long []chan *harness.Answer
	for range 4 * batch {
		long = append(long, us.open(us))
	}
	servedIn(eu, "forwarded")
	for _, c := range long {
		us.release <- struct{}{}
		if a := us.answer(c); a.Status != http.StatusOK {
			t.Errorf("at home: %+v", a)
		}
	}
	servedIn(us, "chosen")
	us.DrainedT(t)
	eu.DrainedT(t)
}
