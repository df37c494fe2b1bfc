package routes

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
)

// old restores the previous form of the shipped files: the admin cluster lets only GET /clusters pass, and the two
// headers reach the router, where override_host reads one of them.
func old(file string, doc *yaml.Node) error {
	switch file {
	case "clusters.yaml":
		const policy = "resources[name=llm].load_balancing_policy.policies[0].typed_extension_config.typed_config"
		return harness.Set(doc, policy+".override_host_sources",
			[]any{map[string]string{"header": "x-gateway-destination-endpoint"}})
	case "envoy.yaml":
		filters, err := harness.Find(doc, filtersPath)
		if err != nil {
			return err
		}
		before := len(filters.Content)
		filters.Content = slices.DeleteFunc(filters.Content, func(n *yaml.Node) bool {
			name, err := harness.Find(n, "name")
			return err == nil && name.Value == "warmgate-take"
		})
		const known = `page == "GET /clusters" or page == "GET /stats?usedonly&filter=lb_subsets_"`
		if n := replace(doc, known, `page == "GET /clusters"`); n != 1 || len(filters.Content) != before-1 {
			return fmt.Errorf("%d pages replaced, %d filters left of %d", n, len(filters.Content), before)
		}
	}
	return nil
}

// replace replaces a text in all values below the node, and returns in how many.
func replace(n *yaml.Node, from, to string) (count int) {
	if strings.Contains(n.Value, from) {
		n.Value = strings.ReplaceAll(n.Value, from, to)
		count++
	}
	for _, c := range n.Content {
		count += replace(c, from, to)
	}
	return count
}

// TestOldConfiguration runs files from a time before the plugin read subsets. Requests are balanced all the same; the
// log has one line about unknown subsets.
func TestOldConfiguration(t *testing.T) {
	a := newServers(t, 3)
	o := harness.Options{Endpoints: endpoints(a), Config: "{" + rule(fromAdmin) + "}", Edit: old}
	s := &stage{harness.StartT(t, o), t}
	s.awaitReason("chosen")
	for range 20 {
		if resp := s.answer(); resp.Header.Get("x-served-by") != resp.Header.Get("x-warmgate-host") {
			t.Errorf("served by %s, chosen %s", resp.Header.Get("x-served-by"), resp.Header.Get("x-warmgate-host"))
		}
	}
	s.DrainedT(t)
	if n := strings.Count(s.Logs(), "clusters are assumed to have no subsets"); n != 1 {
		t.Errorf("the log has %d lines about unknown subsets, want once", n)
	}
}
